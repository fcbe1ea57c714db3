// A bidirectional LSTM as an operator, with its gradient.
//
// Inputs: the input (length, batch, inputs), float32; lengths (batch,), any integers; then for the first direction and
// for the second direction, input weights (4 * units, inputs), state weights (4 * units, units), and two biases
// (4 * units,), which are added. The order of the gates is input, forget, candidate, output.

#include <memory>

#include "../../native/operator.h"
#include "recurrence.h"

namespace lstm {
namespace {

using native::ANY;
using native::Arguments;
using native::Type;

const int INPUTS = 0, LENGTHS = 1, WEIGHTS = 2, EACH = 4, OWN = WEIGHTS + 2 * EACH;

// Forms are distinct words. Inputs of `gates_of_forms`: vectors (forms, inputs); the number of valid vectors (1,),
// int32; for both directions, input weights and two biases. Inputs of `scores_of_forms`: the result of `gates_of_forms`
// (forms, 8 * units); lengths; for both directions, state weights; the index of the form at each position (length,
// batch), int32; weights (tags, 2 * units) and bias (tags,) of the projection.
const int VECTORS = 0, COUNT = 1, EACH_BY_INPUT = 3, FORMS = 0, BY_STATE = 2, PLACES = 4, OUTPUT = 5;

// Work of a thread: sentences in one direction, about the same number in each part.
struct Part {
    int direction;
    Sentences sentences;
};

struct Nothing {};                                            // memory of a thread: none

struct Call {
    Shape shape;
    std::vector<int64_t> lengths;
    Direction directions[2];
    std::vector<Part> parts;

    explicit Call(const Arguments &arguments) {
        const int64_t *sizes = arguments.shapes[INPUTS];
        shape = {sizes[0], sizes[1], sizes[2], arguments.shapes[WEIGHTS][0] / GATES};
        for (int d = 0; d < 2; d++) {
            const int first = WEIGHTS + EACH * d;
            directions[d] = {shape, arguments.floats(first), arguments.floats(first + 1), arguments.floats(first + 2),
                             arguments.floats(first + 3), d == 1};
        }
        share_sentences(arguments);
    }

    // For `scores_of_forms`.
    Call(const Arguments &arguments, int64_t units) {
        const int64_t *sizes = arguments.shapes[PLACES];
        shape = {sizes[0], sizes[1], 0, units};
        for (int d = 0; d < 2; d++) {
            directions[d] = {shape, nullptr, arguments.floats(BY_STATE + d), nullptr, nullptr, d == 1};
        }
        share_sentences(arguments);
    }

    // Sets `lengths` and `parts`.
    void share_sentences(const Arguments &arguments) {
        lengths = arguments.integers(LENGTHS, 0, shape.length);
        std::vector<int64_t> order;
        for (int64_t row = 0; row < shape.batch; row++) {
            lengths[row] = std::min(lengths[row], shape.length);
            if (lengths[row] > 0) order.push_back(row);
        }
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
        // Each part reads all weights, so few sentences are not divided.
        const int64_t most = std::max(1, native::processors() / 2);
        const int64_t shares = std::max(int64_t(1), std::min(most, int64_t(order.size()) / (2 * ROWS)));
        parts.resize(2 * shares);
        for (int64_t part = 0; part < 2 * shares; part++) parts[part].direction = int(part % 2);
        for (size_t i = 0; i < order.size(); i++) {
            for (int d = 0; d < 2; d++) {
                Sentences &sentences = parts[2 * (i % shares) + d].sentences;
                sentences.rows.push_back(order[i]);
                sentences.lengths.push_back(lengths[order[i]]);
            }
        }
    }

    // Sets positions after the end of the sentences to 0 in an array (length, batch, width).
    void clear_padding(float *array, int64_t width) const {
        for (int64_t position = 0; position < shape.length; position++) {
            for (int64_t row = 0; row < shape.batch; row++) {
                if (position >= lengths[row]) std::fill_n(array + shape.place(position, row) * width, width, 0.0f);
            }
        }
    }

    int64_t size() const { return shape.positions() * shape.units; }

    // Cost for `share_out`.
    double cost() const {
        double positions = 0;
        for (int64_t length : lengths) positions += double(length);
        return positions * double(shape.gates()) * double(shape.joint()) / 8;
    }

    // Calls work(index, direction, sentences, 0 or 1 for the direction) for each part.
    template <class Work>
    void for_each_part(const Work &work) const {
        native::share_out<Nothing>(parts.size(), cost(), [&](size_t i, Nothing &) {
            const Part &part = parts[i];
            work(i, directions[part.direction], part.sentences, part.direction);
        });
    }
};

// Output: the states (length, batch, 2 * units), the first direction before the second. With `keeps`, the values that
// the gradient needs of both directions follow.
template <bool keeps>
void states(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    const int64_t size = call.size();
    call.clear_padding(out, 2 * call.shape.units);
    call.for_each_part([&](size_t, const Direction &direction, const Sentences &sentences, int d) {
        float *kept = keeps ? out + 2 * size + d * call.shape.positions() * call.shape.kept() : nullptr;
        Forward(direction, sentences).run(arguments.floats(INPUTS), out + d * call.shape.units, kept);
    });
}

// Output: the parts of the gates of both directions that depend on the input, including the biases, (forms, 8 * units).
// Only the rows of valid forms are written.
void gates_of_forms(const Arguments &arguments, float *out, int64_t) {
    constexpr int64_t SEVERAL = 8 * ROWS;                    // number of forms whose gates fit into the cache of a core
    const int64_t forms = arguments.shapes[VECTORS][0], inputs = arguments.shapes[VECTORS][1];
    const int64_t count = arguments.integers(COUNT, 0, forms)[0];
    const int64_t gates = arguments.shapes[WEIGHTS][0], both = 2 * gates;
    std::vector<float> by_input(both * inputs), biases(both);
    for (int d = 0; d < 2; d++) {
        const int first = WEIGHTS + EACH_BY_INPUT * d;
        const float *bias = arguments.floats(first + 1), *other_bias = arguments.floats(first + 2);
        std::copy_n(arguments.floats(first), gates * inputs, by_input.data() + d * gates * inputs);
        for (int64_t gate = 0; gate < gates; gate++) biases[d * gates + gate] = bias[gate] + other_bias[gate];
    }
    Panels weights(inputs, both);
    weights.put_turned(0, by_input.data(), inputs, both);
    const double cost = double(count) * double(inputs) * double(both) / 8;
    native::share_out<std::vector<Floats>>((count + SEVERAL - 1) / SEVERAL, cost, [&](size_t part, auto &sums) {
        const int64_t first = int64_t(part) * SEVERAL, rows = std::min(SEVERAL, count - first);
        const std::vector<const float *> begins(rows, biases.data());
        sums.resize(SEVERAL * weights.width());
        multiply({arguments.floats(VECTORS) + first * inputs, inputs, 1}, rows, weights, inputs, sums.data(),
                 Rows{begins.data(), both});
        for (int64_t row = 0; row < rows; row++) {
            std::memcpy(out + (first + row) * both, sums.data() + row * weights.width(), both * sizeof(float));
        }
    });
}

// Output: scores of the tags (length, batch, tags), from the result of `gates_of_forms`.
void scores_of_forms(const Arguments &arguments, float *out, int64_t size) {
    const int64_t *sizes = arguments.shapes[FORMS], tags = arguments.shapes[OUTPUT][0];
    const Call call(arguments, sizes[1] / (2 * GATES));
    const int64_t units = call.shape.units;
    const std::vector<int64_t> places = arguments.integers(PLACES, 0, sizes[0] - 1);
    // The scores of both directions are computed separately, the first with the bias, and then added.
    std::vector<float> turned(units * tags), other(size), biases[2];
    float *scores[2] = {out, other.data()};
    std::vector<Panels> outputs(2, Panels(units, tags));
    for (int d = 0; d < 2; d++) {
        for (int64_t tag = 0; tag < tags; tag++) {
            std::copy_n(arguments.floats(OUTPUT) + (2 * tag + d) * units, units, turned.data() + tag * units);
        }
        outputs[d].put_turned(0, turned.data(), units, tags);
        biases[d].resize(tags);
    }
    biases[0].assign(arguments.floats(OUTPUT + 1), arguments.floats(OUTPUT + 1) + tags);
    call.clear_padding(out, tags);
    call.for_each_part([&](size_t, const Direction &direction, const Sentences &sentences, int d) {
        const Forms forms = {arguments.floats(FORMS) + d * call.shape.gates(), sizes[1], places};
        Forward(direction, sentences).run(forms, outputs[d], biases[d], scores[d]);
    });
    for (int64_t i = 0; i < size; i++) out[i] += other[i];
}

// Output: gradients by the input and by the weights of both directions, with one bias for each direction, then scratch
// space of the size of the input. Own inputs: the result of `states` with kept values, and the gradient by this result,
// of which only the part of the states is used.
void gradients(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    const Shape &shape = call.shape;
    const int64_t size = call.size(), input = shape.positions() * shape.inputs;
    const float *states = arguments.floats(OWN), *by_states = arguments.floats(OWN + 1);
    float *by_weights = out + input, *by_inputs[2] = {out, by_weights + 2 * shape.gates() * shape.joint()};
    for (float *array : by_inputs) call.clear_padding(array, shape.inputs);
    std::vector<std::unique_ptr<Backward>> results(call.parts.size());
    call.for_each_part([&](size_t i, const Direction &direction, const Sentences &sentences, int d) {
        const int64_t half = d * shape.units;
        results[i] = std::make_unique<Backward>(direction, sentences);
        const float *kept = states + 2 * size + d * shape.positions() * shape.kept();
        results[i]->run(arguments.floats(INPUTS), states + half, kept, by_states + half, by_inputs[d]);
    });
    native::share_out<Nothing>(2, call.cost(), [&](size_t d, Nothing &) {
        float *to = by_weights + d * shape.gates() * shape.joint(), *by_state = to + shape.gates() * shape.inputs;
        std::fill_n(to, shape.gates() * shape.joint(), 0.0f);
        for (size_t i = d; i < results.size(); i += 2) {     // in a fixed order, for reproducible rounding
            results[i]->put(to, by_state, by_state + shape.gates() * shape.units);
        }
        for (int64_t i = input * d / 2; i < input * int64_t(d + 1) / 2; i++) by_inputs[0][i] += by_inputs[1][i];
    });
}

// Checks the weights of both directions, which have `each` inputs for one direction: input weights if `inputs` > 0,
// state weights if `by_state`, and biases if `biases`. Returns the number of units.
int64_t check_weights(const Arguments &arguments, int each, int64_t inputs, bool by_state, bool biases) {
    const int64_t gates = std::max(int64_t(1), native::axis_of(arguments.ranks, arguments.shapes, WEIGHTS, 0) / GATES) * GATES;
    for (int d = 0; d < 2; d++) {
        int i = WEIGHTS + each * d;
        if (inputs > 0) arguments.expect(i++, "weights by the input", Type::FLOATS, {gates, inputs});
        if (by_state) arguments.expect(i++, "weights by the state", Type::FLOATS, {gates, gates / GATES});
        for (int bias = 0; biases && bias < 2; bias++) arguments.expect(i++, "bias", Type::FLOATS, {gates});
    }
    return gates / GATES;
}

// Checks the inputs that `states` and `gradients` share, and the number of inputs, `own` of which are their own.
Shape check_layer(const Arguments &arguments, int own) {
    arguments.expect_inputs(OWN + own);
    arguments.expect(INPUTS, "inputs", Type::FLOATS, {ANY, ANY, ANY});
    const int64_t *sizes = arguments.shapes[INPUTS];
    arguments.expect(LENGTHS, "seq_length", Type::INTEGERS, {sizes[1]});
    return {sizes[0], sizes[1], sizes[2], check_weights(arguments, EACH, sizes[2], true, true)};
}

void check_states(const Arguments &arguments) { check_layer(arguments, 0); }

void check_gradients(const Arguments &arguments) {
    const Shape shape = check_layer(arguments, 2);
    const int64_t states = 2 * shape.positions() * shape.units, kept = states + 2 * shape.positions() * shape.kept();
    arguments.expect(OWN, "states", Type::FLOATS, {kept});
    arguments.expect(OWN + 1, "gradient by the states", Type::FLOATS, {arguments.size(OWN + 1) == states ? states : kept});
}

void check_gates_of_forms(const Arguments &arguments) {
    arguments.expect_inputs(WEIGHTS + 2 * EACH_BY_INPUT);
    arguments.expect(VECTORS, "vectors", Type::FLOATS, {ANY, ANY});
    arguments.expect(COUNT, "count", Type::INT32, {1});
    check_weights(arguments, EACH_BY_INPUT, arguments.shapes[VECTORS][1], false, true);
}

void check_scores_of_forms(const Arguments &arguments) {
    arguments.expect_inputs(OUTPUT + 2);
    arguments.expect(PLACES, "places", Type::INT32, {ANY, ANY});
    arguments.expect(LENGTHS, "seq_length", Type::INTEGERS, {arguments.shapes[PLACES][1]});
    const int64_t units = check_weights(arguments, 1, 0, true, false);
    arguments.expect(FORMS, "gates", Type::FLOATS, {ANY, 2 * GATES * units});
    arguments.expect(OUTPUT + 1, "bias of the projection", Type::FLOATS, {ANY});
    arguments.expect(OUTPUT, "weights of the projection", Type::FLOATS, {arguments.shapes[OUTPUT + 1][0], 2 * units});
}

// Size of the states of `positions` positions, with kept values if `keeps`; -1 if a number is unknown.
std::vector<int64_t> size_of_states(int64_t positions, int64_t gates, bool keeps) {
    const Shape shape = {1, positions, 0, gates / GATES};
    return {positions < 0 || gates < 0 ? -1 : positions * 2 * (shape.units + (keeps ? shape.kept() : 0))};
}

int64_t positions_of(int *ranks, int64_t **shapes) {
    const int64_t sizes[] = {native::axis_of(ranks, shapes, INPUTS, 0), native::axis_of(ranks, shapes, INPUTS, 1)};
    return native::product(sizes, 2);
}

int64_t gates_of(int *ranks, int64_t **shapes) { return native::axis_of(ranks, shapes, WEIGHTS, 0); }

std::vector<int64_t> size_of_gradients(int *ranks, int64_t **shapes) {
    const int64_t positions = positions_of(ranks, shapes), width = native::axis_of(ranks, shapes, INPUTS, 2);
    const int64_t gates = gates_of(ranks, shapes);
    if (positions < 0 || width < 0 || gates < 0) return {-1};
    return {2 * (positions * width + gates * (width + gates / GATES + 1))};
}

}  // namespace
}  // namespace lstm

OPERATOR(LstmStates, lstm::check_states, lstm::states<false>) {
    return lstm::size_of_states(lstm::positions_of(ranks, shapes), lstm::gates_of(ranks, shapes), false);
}

OPERATOR(LstmStatesAndKept, lstm::check_states, lstm::states<true>) {
    return lstm::size_of_states(lstm::positions_of(ranks, shapes), lstm::gates_of(ranks, shapes), true);
}

OPERATOR(LstmGatesOfForms, lstm::check_gates_of_forms, lstm::gates_of_forms) {
    const int64_t sizes[] = {native::axis_of(ranks, shapes, lstm::VECTORS, 0), 2, lstm::gates_of(ranks, shapes)};
    return {native::product(sizes, 3)};
}

OPERATOR(LstmScoresOfForms, lstm::check_scores_of_forms, lstm::scores_of_forms) {
    const int64_t sizes[] = {native::axis_of(ranks, shapes, lstm::PLACES, 0),
                             native::axis_of(ranks, shapes, lstm::PLACES, 1),
                             native::axis_of(ranks, shapes, lstm::OUTPUT, 0)};
    return {native::product(sizes, 3)};
}

OPERATOR(LstmGradients, lstm::check_gradients, lstm::gradients) { return lstm::size_of_gradients(ranks, shapes); }
