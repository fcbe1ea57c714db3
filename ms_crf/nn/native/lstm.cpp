// A bidirectional LSTM without the products of its input, as an operator, and its derivative.
//
// Inputs: lengths (batch,) in any integers; weights (4 units, units) and bias (4 units,) of each direction; products of
// the input with the weights of each direction (length, batch, 4 units). Gates stand in the order input, forget,
// candidate, output.

#include "../../native/operator.h"
#include "recurrence.h"

namespace lstm {
namespace {

using native::Arguments;

const int LENGTHS = 0, WEIGHTS = 1, BIASES = 3, PRODUCTS = 5, OWN = 7;    // two of each, one behind the other

// What threads take: some sentences in one direction, as far as possible as many in each.
struct Part {
    int direction;
    Sentences sentences;
};

struct Call {
    Shape shape;
    std::vector<int64_t> lengths;
    Direction directions[2];
    std::vector<Part> parts;

    explicit Call(const Arguments &arguments) {
        const int64_t *sizes = arguments.shapes[PRODUCTS];
        shape = {sizes[0], sizes[1], sizes[2] / GATES};
        lengths = arguments.integers(LENGTHS, 0, shape.length);
        for (int d = 0; d < 2; d++) {
            directions[d] = {shape, arguments.floats(WEIGHTS + d), arguments.floats(BIASES + d), d == 1};
        }
        std::vector<int64_t> order;
        for (int64_t row = 0; row < shape.batch; row++) {
            lengths[row] = std::min(lengths[row], shape.length);
            if (lengths[row] > 0) order.push_back(row);
        }
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
        // Each part reads all weights: few sentences are not worth more than one.
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

    // Sets to 0 what stands behind the sentences in arrays (length, batch, width).
    void clear_padding(float *array, int64_t width) const {
        for (int64_t position = 0; position < shape.length; position++) {
            for (int64_t row = 0; row < shape.batch; row++) {
                if (position >= lengths[row]) std::fill_n(array + shape.place(position, row) * width, width, 0.0f);
            }
        }
    }

    // Calls work(its direction, its sentences, 0 or 1) for each part.
    template <class Work>
    void for_each_part(const Work &work) const {
        struct Nothing {};
        double positions = 0;
        for (int64_t length : lengths) positions += double(length);
        const double cost = positions * 2 * double(GATES * shape.units) * double(shape.units) / 8;
        native::share_out<Nothing>(parts.size(), cost, [&](size_t i, Nothing &) {
            const Part &part = parts[i];
            work(directions[part.direction], part.sentences, part.direction);
        });
    }
};

// The states (length, batch, 2 units), those of the first direction before those of the second; with `keeps`, what the
// derivative needs of both directions behind them.
template <bool keeps>
void states(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    const int64_t size = call.shape.size();
    call.clear_padding(out, 2 * call.shape.units);
    call.for_each_part([&](const Direction &direction, const Sentences &sentences, int d) {
        float *kept = keeps ? out + 2 * size + d * KEPT * size : nullptr;
        Forward(direction, sentences).run(arguments.floats(PRODUCTS + d), out + d * call.shape.units, kept);
    });
}

// The derivatives by the products of both directions, from what `states` kept and the derivative by the states.
void by_products(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    const int64_t size = call.shape.size();
    const float *kept = arguments.floats(OWN) + 2 * size, *by_states = arguments.floats(OWN + 1);
    call.for_each_part([&](const Direction &direction, const Sentences &sentences, int d) {
        float *to = out + d * GATES * size;
        Backward(direction, sentences).run(kept + d * KEPT * size, by_states + d * call.shape.units, to);
    });
    for (int d = 0; d < 2; d++) call.clear_padding(out + d * GATES * size, GATES * call.shape.units);
}

// So many numbers for each position of a batch and each unit; -1 while one of them is not known.
std::vector<int64_t> size_of(int64_t **shapes, int64_t each) {
    const int64_t size = native::product(shapes[PRODUCTS], 3);
    return {size < 0 ? -1 : size / GATES * each};
}

}  // namespace
}  // namespace lstm

OPERATOR(LstmStates, lstm::states<false>) { return lstm::size_of(shapes, 2); }

OPERATOR(LstmStatesAndKept, lstm::states<true>) { return lstm::size_of(shapes, 2 + 2 * lstm::KEPT); }

OPERATOR(LstmGradients, lstm::by_products) { return lstm::size_of(shapes, 2 * lstm::GATES); }
