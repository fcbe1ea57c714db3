// The recursion of an LSTM in one direction, and its derivative, for some sentences of a batch.
//
// At each step, gates = products of the input + products of the state before + bias; input, forget and output gates by
// the sigmoid, the candidate by tanh; cell = forget * cell + input * candidate; state = output * tanh(cell).
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "floats.h"

namespace lstm {

constexpr int GATES = 4;                                     // input, forget, candidate, output
constexpr int KEPT = GATES + 1;                              // the gates after their functions, and the cell

// Of a layer: how its arrays are laid out.
struct Shape {
    int64_t length, batch, units;

    int64_t blocks() const { return (units + WIDTH - 1) / WIDTH; }
    int64_t padded() const { return blocks() * WIDTH; }
    int64_t place(int64_t position, int64_t row) const { return position * batch + row; }
    int64_t size() const { return length * batch * units; }
};

// Sentences of a batch, the longest first: those with a step t are the first `with_step(t)`.
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

// One of the two directions: the second reads each sentence from its end.
struct Direction {
    Shape shape;
    const float *weights;                                    // (4 units, units)
    const float *bias;                                       // (4 units,)
    bool backward;

    int64_t place(const Sentences &sentences, int64_t i, int64_t step) const {
        const int64_t position = backward ? sentences.lengths[i] - 1 - step : step;
        return shape.place(position, sentences.rows[i]);
    }
};

// Calls work(number of rows, first row) with tiles of a constant number of rows.
template <int R, class Work>
inline void tiles(int64_t first, int64_t end, const Work &work) {
    for (; first + R <= end; first += R) work(std::integral_constant<int, R>(), first);
    if constexpr (R > 1) tiles<R - 1>(first, end, work);
}

// The states of all steps.
//
// gates: (length, batch, 4 units), products of the input. states: (length, batch, 2 units), of which this direction has
// the half that `states` begins with. kept: (length, batch, 5 units) for the derivative, or null.
class Forward {
    const Direction &layer;
    const Shape shape;
    const Sentences &sentences;
    std::vector<Floats> weights, cells;                      // (blocks, units before, 4), (rows, blocks)
    std::vector<float> before, now;                          // (rows, units) states

   public:
    Forward(const Direction &layer, const Sentences &sentences)
        : layer(layer), shape(layer.shape), sentences(sentences), weights(shape.blocks() * shape.units * GATES),
          cells(sentences.count() * shape.blocks()), before(sentences.count() * shape.units), now(before.size()) {
        const int64_t units = shape.units;
        for (int64_t unit = 0; unit < units; unit++) {
            const int64_t block = unit / WIDTH, lane = unit % WIDTH;
            for (int gate = 0; gate < GATES; gate++) {
                const float *from = layer.weights + (gate * units + unit) * units;
                Floats *to = weights.data() + block * units * GATES + gate;
                for (int64_t k = 0; k < units; k++) to[k * GATES][lane] = from[k];
            }
        }
    }

    void run(const float *gates, float *states, float *kept) {
        for (int64_t step = 0; step < sentences.longest(); step++) {
            const int64_t count = sentences.with_step(step);
            for (int64_t block = 0; block < shape.blocks(); block++) {
                tiles<ROWS>(0, count, [&](auto rows, int64_t first) {
                    tile<decltype(rows)::value>(step, block, first, gates, states, kept);
                });
            }
            std::swap(before, now);
        }
    }

   private:
    template <int R>
    void tile(int64_t step, int64_t block, int64_t first, const float *gates, float *states, float *kept) {
        const int64_t units = shape.units, unit = block * WIDTH, count = std::min(int64_t(WIDTH), units - unit);
        Floats sums[R][GATES];
        int64_t places[R];
        for (int gate = 0; gate < GATES; gate++) {
            const Floats bias = load(layer.bias + gate * units + unit, count);
            for (int r = 0; r < R; r++) {
                places[r] = layer.place(sentences, first + r, step);
                sums[r][gate] = bias + load(gates + (places[r] * GATES + gate) * units + unit, count);
            }
        }
        if (step > 0) {
            const Floats *weight = weights.data() + block * units * GATES;
            const float *state = before.data() + first * units;
            for (int64_t k = 0; k < units; k++, weight += GATES) {
#pragma GCC unroll 4
                for (int gate = 0; gate < GATES; gate++) {
                    const Floats w = weight[gate];
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++) sums[r][gate] += w * state[r * units + k];
                }
            }
        }
        for (int r = 0; r < R; r++) {
            Floats &cell = cells[(first + r) * shape.blocks() + block];
            const Floats input = sigmoid(sums[r][0]), forget = sigmoid(sums[r][1]);
            const Floats candidate = hyperbolic_tangent(sums[r][2]), output = sigmoid(sums[r][3]);
            cell = forget * cell + input * candidate;
            const Floats state = output * hyperbolic_tangent(cell);
            store(state, now.data() + (first + r) * units + unit, count);
            store(state, states + places[r] * 2 * units + unit, count);
            if (kept != nullptr) {
                const Floats all[KEPT] = {input, forget, candidate, output, cell};
                for (int i = 0; i < KEPT; i++) store(all[i], kept + (places[r] * KEPT + i) * units + unit, count);
            }
        }
    }
};

// The derivative by the products of the input, (length, batch, 4 units), from that by the states and what was kept.
class Backward {
    static constexpr int WIDE = 4;                           // blocks that a tile has at most
    const Direction &layer;
    const Shape shape;
    const Sentences &sentences;
    std::vector<Floats> weights, by_cells;                   // (4 units, blocks), (rows, blocks)

   public:
    Backward(const Direction &layer, const Sentences &sentences)
        : layer(layer), shape(layer.shape), sentences(sentences), weights(GATES * shape.units * shape.blocks()),
          by_cells(sentences.count() * shape.blocks()) {
        for (int64_t row = 0; row < GATES * shape.units; row++) {
            std::memcpy(weights.data() + row * shape.blocks(), layer.weights + row * shape.units,
                        shape.units * sizeof(float));
        }
    }

    void run(const float *kept, const float *by_states, float *by_gates) {
        const int64_t parts = (shape.blocks() + WIDE - 1) / WIDE;
        for (int64_t step = sentences.longest() - 1; step >= 0; step--) {
            const int64_t count = sentences.with_step(step), later = sentences.with_step(step + 1);
            for (int64_t part = 0; part < parts; part++) {
                const int64_t block = shape.blocks() * part / parts, end = shape.blocks() * (part + 1) / parts;
                auto run_tiles = [&](auto wide) {
                    auto run_tile = [&](auto rows, int64_t first) {
                        tile<decltype(rows)::value, decltype(wide)::value>(step, block, first, first < later, kept,
                                                                           by_states, by_gates);
                    };
                    tiles<ROWS>(0, later, run_tile);
                    tiles<ROWS>(later, count, run_tile);
                };
                switch (end - block) {
                    case 1: run_tiles(std::integral_constant<int, 1>()); break;
                    case 2: run_tiles(std::integral_constant<int, 2>()); break;
                    case 3: run_tiles(std::integral_constant<int, 3>()); break;
                    default: run_tiles(std::integral_constant<int, WIDE>());
                }
            }
        }
    }

   private:
    template <int R, int BLOCKS>
    void tile(int64_t step, int64_t block, int64_t first, bool goes_on, const float *kept, const float *by_states,
              float *by_gates) {
        const int64_t units = shape.units;
        Floats sums[R][BLOCKS] = {};
        if (goes_on) {
            const float *later[R];
            for (int r = 0; r < R; r++) {
                later[r] = by_gates + layer.place(sentences, first + r, step + 1) * GATES * units;
            }
            const Floats *weight = weights.data() + block;
            for (int64_t n = 0; n < GATES * units; n++, weight += shape.blocks()) {
#pragma GCC unroll 4
                for (int b = 0; b < BLOCKS; b++) {
                    const Floats w = weight[b];
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++) sums[r][b] += w * later[r][n];
                }
            }
        }
        for (int r = 0; r < R; r++) {
            const int64_t place = layer.place(sentences, first + r, step);
            const float *here = kept + place * KEPT * units;
            const float *earlier = kept + layer.place(sentences, first + r, std::max(step - 1, int64_t(0))) * KEPT * units;
            for (int b = 0; b < BLOCKS; b++) {
                const int64_t unit = (block + b) * WIDTH, count = std::min(int64_t(WIDTH), units - unit);
                const Floats input = load(here + unit, count), forget = load(here + units + unit, count);
                const Floats candidate = load(here + 2 * units + unit, count);
                const Floats output = load(here + 3 * units + unit, count);
                const Floats squashed = hyperbolic_tangent(load(here + 4 * units + unit, count));
                const Floats before = step > 0 ? load(earlier + 4 * units + unit, count) : Floats{};
                const Floats by_state = sums[r][b] + load(by_states + place * 2 * units + unit, count);
                Floats &by_cell = by_cells[(first + r) * shape.blocks() + block + b];
                const Floats whole = by_cell + by_state * output * (1.0f - squashed * squashed);
                by_cell = whole * forget;
                const Floats all[GATES] = {whole * candidate * input * (1.0f - input),
                                           whole * before * forget * (1.0f - forget),
                                           whole * input * (1.0f - candidate * candidate),
                                           by_state * squashed * output * (1.0f - output)};
                for (int gate = 0; gate < GATES; gate++) {
                    store(all[gate], by_gates + (place * GATES + gate) * units + unit, count);
                }
            }
        }
    }
};

}  // namespace lstm
