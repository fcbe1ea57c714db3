// An LSTM in one direction, with its gradient, for some sentences of a batch.
//
// In each step, gates = weights * (input, previous state, 1). The input, forget and output gates use the sigmoid, the
// candidate uses tanh. cell = forget * cell + input * candidate; state = output * tanh(cell).
#pragma once

#include "products.h"

namespace lstm {

using namespace nn;

constexpr int GATES = 4;                                     // input, forget, candidate, output
constexpr int KEPT = GATES + 1;                              // kept for the gradient: activated gates, and the cell

// Sizes of a layer. Its arrays are (length, batch, values of a position).
struct Shape {
    int64_t length, batch, inputs, units;

    int64_t gates() const { return GATES * units; }
    int64_t joint() const { return inputs + units + 1; }     // (input, previous state, 1)
    int64_t blocks() const { return (units + WIDTH - 1) / WIDTH; }
    int64_t padded() const { return blocks() * WIDTH; }
    int64_t kept() const { return KEPT * padded(); }         // kept values of a position, in one direction
    int64_t positions() const { return length * batch; }
    int64_t place(int64_t position, int64_t row) const { return position * batch + row; }
};

// Sentences of a batch, longest first. The first `with_step(t)` sentences have a step t.
struct Sentences {
    std::vector<int64_t> rows, lengths;

    int64_t count() const { return int64_t(rows.size()); }
    int64_t longest() const { return lengths.empty() ? 0 : lengths[0]; }
    int64_t with_step(int64_t step) const {
        int64_t number = count();
        while (number > 0 && lengths[number - 1] <= step) number--;
        return number;
    }
};

// One of the two directions; the second direction reads each sentence from its end.
struct Direction {
    Shape shape;
    const float *by_input, *by_state;                        // weights (4 * units, inputs), (4 * units, units)
    const float *bias, *other_bias;                          // (4 * units,); both are added
    bool backward;

    int64_t place(const Sentences &sentences, int64_t i, int64_t step) const {
        const int64_t position = backward ? sentences.lengths[i] - 1 - step : step;
        return shape.place(position, sentences.rows[i]);
    }
};

// Precomputed parts of the gates that depend on the input, including biases, and the index of the form at each
// position.
struct Forms {
    const float *gates;                                      // (forms, width), from the first gate of a direction
    int64_t width;
    const std::vector<int64_t> &places;                      // (length * batch,)

    const float *at(int64_t place) const { return gates + places[place] * width; }
};

// The states of all steps, from the input, or from precomputed gates of forms if the layer has no input weights.
class Forward {
    const Direction &layer;
    const Shape shape;
    const Sentences &sentences;
    const bool of_forms;
    const int64_t depth;                                     // inputs + units + 1, or units
    Panels weights;                                          // (depth, 4 * units)
    std::vector<float> joint;                                // (rows, depth)
    std::vector<const float *> begins;                       // (rows,), gates of the forms
    std::vector<Floats> cells, gates, row;                   // (rows, blocks), (rows, width of the weights), (blocks,)

   public:
    Forward(const Direction &layer, const Sentences &sentences)
        : layer(layer), shape(layer.shape), sentences(sentences), of_forms(layer.by_input == nullptr),
          depth(of_forms ? shape.units : shape.joint()), weights(depth, shape.gates()),
          joint(sentences.count() * depth), begins(sentences.count()), cells(sentences.count() * shape.blocks()),
          gates(sentences.count() * weights.width() + 1), row(shape.blocks()) {
        weights.put_turned(depth_of_input(), layer.by_state, shape.units, shape.gates());
        if (of_forms) return;
        weights.put_turned(0, layer.by_input, shape.inputs, shape.gates());
        std::vector<float> bias(layer.bias, layer.bias + shape.gates());
        for (int64_t gate = 0; gate < shape.gates(); gate++) bias[gate] += layer.other_bias[gate];
        weights.put(depth - 1, 0, bias.data(), shape.gates());
        for (int64_t i = 0; i < sentences.count(); i++) joint[(i + 1) * depth - 1] = 1.0f;
    }

    // inputs: (length, batch, inputs). states: (length, batch, 2 * units), beginning with the half of this direction.
    // kept: (length, batch, `shape.kept()`), for the gradient, or null.
    void run(const float *inputs, float *states, float *kept) {
        for (int64_t step = 0; step < sentences.longest(); step++) {
            const int64_t count = sentences.with_step(step);
            for (int64_t i = 0; i < count; i++) {
                const float *from = inputs + layer.place(sentences, i, step) * shape.inputs;
                std::memcpy(joint.data() + i * depth, from, shape.inputs * sizeof(float));
            }
            multiply({joint.data(), depth, 1}, count, weights, depth, gates.data(), Zeros{});
            for (int64_t i = 0; i < count; i++) {
                const int64_t place = layer.place(sentences, i, step);
                move(i, states + place * 2 * shape.units, kept ? kept + place * shape.kept() : nullptr);
            }
        }
    }

    // For forms: writes bias (tags,) + state * output (units, tags) to scores (length, batch, tags).
    void run(const Forms &forms, const Panels &output, const std::vector<float> &bias, float *scores) {
        const int64_t tags = int64_t(bias.size());
        const std::vector<const float *> biases(sentences.count(), bias.data());
        std::vector<Floats> sums(sentences.count() * output.width());
        for (int64_t step = 0; step < sentences.longest(); step++) {
            const int64_t count = sentences.with_step(step), later = sentences.with_step(step + 1);
            for (int64_t i = 0; i < count; i++) begins[i] = forms.at(layer.place(sentences, i, step));
            multiply({joint.data(), depth, 1}, count, weights, depth, gates.data(), Rows{begins.data(), shape.gates()});
            for (int64_t i = 0; i < count; i++) {
                if (i < later) fetch(forms.at(layer.place(sentences, i, step + 1)));
                move(i, nullptr, nullptr);
            }
            multiply({joint.data(), depth, 1}, count, output, depth, sums.data(), Rows{biases.data(), tags});
            for (int64_t i = 0; i < count; i++) {
                std::memcpy(scores + layer.place(sentences, i, step) * tags, sums.data() + i * output.width(),
                            tags * sizeof(float));
            }
        }
    }

   private:
    int64_t depth_of_input() const { return of_forms ? 0 : shape.inputs; }

    // Prefetches the gates of a form into the cache.
    void fetch(const float *from) const {
        constexpr int64_t LINE = 64 / sizeof(float);
        for (int64_t gate = 0; gate < shape.gates(); gate += LINE) __builtin_prefetch(from + gate);
    }

    // One step of a sentence. Values after the last unit, which fill up a vector, are not used.
    void move(int64_t i, float *states, float *kept) {
        const int64_t units = shape.units;
        const float *sums = reinterpret_cast<const float *>(gates.data() + i * weights.width());
        Floats *cell_of = cells.data() + i * shape.blocks();
        for (int64_t block = 0; block < shape.blocks(); block++) {
            const float *of = sums + block * WIDTH;
            const Floats input = sigmoid(load(of)), forget = sigmoid(load(of + units));
            const Floats candidate = hyperbolic_tangent(load(of + 2 * units)), output = sigmoid(load(of + 3 * units));
            const Floats cell = forget * cell_of[block] + input * candidate;
            cell_of[block] = cell;
            row[block] = output * hyperbolic_tangent(cell);
            if (kept != nullptr) {
                const Floats all[KEPT] = {input, forget, candidate, output, cell};
                for (int k = 0; k < KEPT; k++) store(all[k], kept + k * shape.padded() + block * WIDTH);
            }
        }
        std::memcpy(joint.data() + i * depth + depth_of_input(), row.data(), units * sizeof(float));
        if (states != nullptr) std::memcpy(states, row.data(), units * sizeof(float));
    }
};

// Gradients by input and weights, from the states and kept values of `Forward` and the gradient by the states.
class Backward {
    const Direction &layer;
    const Shape shape;
    const Sentences &sentences;
    const int64_t room;                                      // number of positions whose products are added at once
    Panels weights, joint;                                   // (4 * units, inputs + units), (room, inputs + units + 1)
    std::vector<float> by_gates;                             // (room, 4 * units)
    std::vector<Floats> by_cells, by_joint, by_weights;      // (rows, blocks), (rows, weights.width()), (4 * units,
    std::vector<Floats> row, gates;                          // joint.width()); (blocks,), (4, blocks)
    int64_t waiting = 0;                                     // number of positions that are not yet added

   public:
    Backward(const Direction &layer, const Sentences &sentences)
        : layer(layer), shape(layer.shape), sentences(sentences), room(std::max(int64_t(128), sentences.count())),
          weights(shape.gates(), shape.inputs + shape.units), joint(room, shape.joint()),
          by_gates(room * shape.gates()), by_cells(sentences.count() * shape.blocks()),
          by_joint(sentences.count() * weights.width() + 1), by_weights(shape.gates() * joint.width()),
          row(shape.blocks()), gates(GATES * shape.blocks()) {
        for (int64_t gate = 0; gate < shape.gates(); gate++) {
            weights.put(gate, 0, layer.by_input + gate * shape.inputs, shape.inputs);
            weights.put(gate, shape.inputs, layer.by_state + gate * shape.units, shape.units);
        }
    }

    // by_states: (length, batch, 2 * units), beginning with the half of this direction. by_inputs: (length, batch,
    // inputs).
    void run(const float *inputs, const float *states, const float *kept, const float *by_states, float *by_inputs) {
        const std::vector<float> nothing(shape.padded());
        const float one = 1.0f;
        for (int64_t step = sentences.longest() - 1; step >= 0; step--) {
            const int64_t count = sentences.with_step(step), later = sentences.with_step(step + 1);
            if (waiting + count > room) add_up();
            for (int64_t i = 0; i < count; i++) {
                const int64_t place = layer.place(sentences, i, step);
                const int64_t earlier = step > 0 ? layer.place(sentences, i, step - 1) : -1;
                const float *cell_before = nothing.data();
                if (step > 0) cell_before = kept + earlier * shape.kept() + GATES * shape.padded();
                move(i, i < later, kept + place * shape.kept(), cell_before, by_states + place * 2 * shape.units);
                joint.put(waiting + i, 0, inputs + place * shape.inputs, shape.inputs);
                joint.put(waiting + i, shape.inputs, step > 0 ? states + earlier * 2 * shape.units : nothing.data(),
                          shape.units);
                joint.put(waiting + i, shape.joint() - 1, &one, 1);
            }
            multiply({by_gates.data() + waiting * shape.gates(), shape.gates(), 1}, count, weights, shape.gates(),
                     by_joint.data(), Zeros{});
            for (int64_t i = 0; i < count; i++) {
                std::memcpy(by_inputs + layer.place(sentences, i, step) * shape.inputs,
                            by_joint.data() + i * weights.width(), shape.inputs * sizeof(float));
            }
            waiting += count;
        }
        add_up();
    }

    // Adds the gradients to the gradients by input weights, state weights and bias.
    void put(float *by_input, float *by_state, float *by_bias) const {
        for (int64_t gate = 0; gate < shape.gates(); gate++) {
            const float *from = reinterpret_cast<const float *>(by_weights.data() + gate * joint.width());
            for (int64_t k = 0; k < shape.inputs; k++) by_input[gate * shape.inputs + k] += *from++;
            for (int64_t k = 0; k < shape.units; k++) by_state[gate * shape.units + k] += *from++;
            by_bias[gate] += *from;
        }
    }

   private:
    void add_up() {
        multiply({by_gates.data(), 1, shape.gates()}, shape.gates(), joint, waiting, by_weights.data(),
                 Sums{by_weights.data(), joint.width()});
        waiting = 0;
    }

    void move(int64_t i, bool goes_on, const float *kept, const float *cell_before, const float *by_states) {
        const int64_t padded = shape.padded();
        const float *later = reinterpret_cast<const float *>(by_joint.data() + i * weights.width()) + shape.inputs;
        Floats *by_cell_of = by_cells.data() + i * shape.blocks();
        std::memcpy(row.data(), by_states, shape.units * sizeof(float));
        for (int64_t block = 0; block < shape.blocks(); block++) {
            const float *of = kept + block * WIDTH;
            const Floats input = load(of), forget = load(of + padded), candidate = load(of + 2 * padded);
            const Floats output = load(of + 3 * padded), squashed = hyperbolic_tangent(load(of + 4 * padded));
            Floats by_state = row[block], by_cell = {};
            if (goes_on) {
                by_state += load(later + block * WIDTH);
                by_cell = by_cell_of[block];
            }
            by_cell += by_state * output * (1.0f - squashed * squashed);
            by_cell_of[block] = by_cell * forget;
            gates[block] = by_cell * candidate * input * (1.0f - input);
            gates[shape.blocks() + block] = by_cell * load(cell_before + block * WIDTH) * forget * (1.0f - forget);
            gates[2 * shape.blocks() + block] = by_cell * input * (1.0f - candidate * candidate);
            gates[3 * shape.blocks() + block] = by_state * squashed * output * (1.0f - output);
        }
        float *to = by_gates.data() + (waiting + i) * shape.gates();
        for (int gate = 0; gate < GATES; gate++, to += shape.units) {
            std::memcpy(to, gates.data() + gate * shape.blocks(), shape.units * sizeof(float));
        }
    }
};

}  // namespace lstm
