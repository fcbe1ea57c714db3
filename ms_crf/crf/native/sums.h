// Operators for sums over all paths: log partition function, loss, their gradients, and posteriors.
#pragma once

#include "call.h"

namespace chain {

// Sum of the largest emissions of all positions; -VIOLATION for a position whose tags are all forbidden.
inline double sum_of_peaks(const Batch &batch, int64_t row) {
    double sum = 0.0;
    for (int64_t t = 0; t < batch.lengths[row]; t++) {
        const float *scores = batch.at(row, t);
        const double peak = *std::max_element(scores, scores + batch.tags);
        sum += is_forbidden(peak) ? -VIOLATION : peak;
    }
    return sum;
}

// Number of rows computed by scaled products, and number of rows also computed in the log domain.
inline std::atomic<int64_t> rows_by_products{0}, rows_by_logarithms{0};

// Calls use(row, lane, sums, null) for each row of the group; for rows with unreliable products, use(row, lane, sums,
// exact).
template <class Use>
void for_each_row(const Call &call, const Group &group, const Known *known, Space &space, const Use &use) {
    forward_backward(call.model, call.batch, group, known, space.sums);
    rows_by_products += group.count;
    for (int lane = 0; lane < group.count; lane++) {
        const int64_t row = group.rows[lane];
        if (space.sums.reliable[lane]) {
            use(row, lane, space.sums, static_cast<const Exact *>(nullptr));
        } else {
            forward_backward(call.model, call.batch, row, known, space.exact);
            rows_by_logarithms++;
            use(row, lane, space.sums, &space.exact);
        }
    }
}

// One flat array with the values (batch,), the gradients by emissions in their layout, and the gradients by transitions
// (batch, tags, tags).
struct Packed {
    float *values, *by_emissions, *by_transitions;

    Packed(const Call &call, float *out)
        : values(out), by_emissions(out + call.batch.rows),
          by_transitions(by_emissions + call.batch.rows * call.batch.length * call.batch.tags) {}

    // Stores the posteriors of a row; if `on_top`, subtracts them from the stored values instead.
    void put(const Call &call, int64_t row, int lane, const Sums &sums, const Exact *exact, bool on_top) {
        const Batch &batch = call.batch;
        const int64_t tags = batch.tags;
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            float *to = by_emissions + batch.offset(row, t);
            for (int64_t k = 0; k < tags; k++) {
                const double value = exact ? exact->marginals[t * tags + k] : sums.marginals[t * tags + k][lane];
                to[k] = float(on_top ? to[k] - value : value);
            }
        }
        float *to = by_transitions + row * tags * tags;
        for (int64_t i = 0; i < tags * tags; i++) {
            const double value = exact ? exact->pairs[i] : sums.pairs[i][lane] * call.model.step[i];
            to[i] = float(on_top ? to[i] - value : value);
        }
    }

    void fill(const Call &call, int64_t row, double value) {
        const Batch &batch = call.batch;
        values[row] = float(value);
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            std::fill_n(by_emissions + batch.offset(row, t), batch.tags, float(value));
        }
        std::fill_n(by_transitions + row * batch.tags * batch.tags, batch.tags * batch.tags, float(value));
    }
};

inline double price(double score) { return is_forbidden(score) ? -VIOLATION : score; }

// Subtracts the counts of the known path of a row from the gradient; returns its score for emissions whose largest at
// each position is 0.
inline double take_path(const Call &call, int64_t row, const Known &known, Packed &packed) {
    const Batch &batch = call.batch;
    const Model &model = call.model;
    const int64_t length = batch.lengths[row], tags = batch.tags;
    double score = price(model.start[known.at(row, 0)]) + price(model.end[known.at(row, length - 1)]);
    for (int64_t t = 0; t < length; t++) {
        const int64_t tag = known.at(row, t);
        const float *scores = batch.at(row, t);
        const double peak = *std::max_element(scores, scores + tags);
        if (!is_forbidden(peak)) score += is_forbidden(scores[tag]) ? -VIOLATION : scores[tag] - peak;
        packed.by_emissions[batch.offset(row, t) + tag] -= 1.0f;
        if (t > 0) {
            const int64_t step = known.at(row, t - 1) * tags + tag;
            score += price(model.transitions[step]);
            packed.by_transitions[row * tags * tags + step] -= 1.0f;
        }
    }
    return score;
}

inline void normalizer(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    call.model.exponentiate();
    Packed packed(call, out);
    clear(out, size);
    share_out<Space>(call.groups.size(), cost_of(call, 3.0), [&](size_t i, Space &space) {
        for_each_row(call, call.groups[i], nullptr, space, [&](int64_t row, int lane, const Sums &sums, const Exact *exact) {
            const double value = exact ? exact->log_normalizer : sums.log_normalizer[lane];
            packed.put(call, row, lane, sums, exact, false);
            packed.values[row] = float(value + sum_of_peaks(call.batch, row));
        });
    });
    for (int64_t row : call.faulty) packed.fill(call, row, NOT_A_NUMBER);
    for (int64_t row = 0; row < call.batch.rows; row++) {
        if (call.is_void(row)) packed.values[row] = float(NOT_A_NUMBER);
    }
}

inline void loss(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    call.model.exponentiate();
    const Batch &batch = call.batch;
    const int64_t tags = batch.tags;
    Packed packed(call, out);
    clear(out, size);

    const std::vector<int64_t> given = arguments.integers(OWN, -1, tags);
    Known known{batch.length, std::vector<int32_t>(batch.rows * batch.length)};
    std::vector<char> impossible(batch.rows), partly(batch.rows);
    for (int64_t row = 0; row < batch.rows; row++) {
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            const int64_t tag = given[call.batch_first ? row * batch.length + t : t * batch.rows + row];
            impossible[row] |= tag >= tags;
            partly[row] |= tag < 0;
            known.values[row * batch.length + t] = int32_t(std::min(tag, tags - 1));
        }
    }
    share_out<Space>(call.groups.size(), cost_of(call, 3.0), [&](size_t i, Space &space) {
        Group again;                                   // the rows with unknown tags
        std::vector<double> every(batch.rows);
        for_each_row(call, call.groups[i], nullptr, space, [&](int64_t row, int lane, const Sums &sums, const Exact *exact) {
            every[row] = exact ? exact->log_normalizer : sums.log_normalizer[lane];
            packed.put(call, row, lane, sums, exact, false);
            if (partly[row]) {
                again.add(row, batch.lengths[row]);
            } else {
                packed.values[row] = float(every[row] - take_path(call, row, known, packed));
            }
        });
        if (again.count == 0) return;
        for_each_row(call, again, &known, space, [&](int64_t row, int lane, const Sums &sums, const Exact *exact) {
            packed.put(call, row, lane, sums, exact, true);
            packed.values[row] = float(every[row] - (exact ? exact->log_normalizer : sums.log_normalizer[lane]));
        });
    });
    for (int64_t row : call.faulty) packed.fill(call, row, NOT_A_NUMBER);
    for (int64_t row = 0; row < batch.rows; row++) {
        if (impossible[row] || call.is_void(row)) packed.values[row] = float(NOT_A_NUMBER);
    }
}

// Gradients by emissions, transitions, start and end. Own inputs: a packed result of `normalizer` or `loss`, and
// factors of the rows (batch,). Forbidden scores have gradient 0.
inline void gradients(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    const Model &model = call.model;
    const int64_t tags = batch.tags;
    const Packed packed(call, const_cast<float *>(arguments.floats(OWN)));
    const float *factors = arguments.floats(OWN + 1);
    clear(out, size);
    ScoreGradients by_scores(tags);
    for (int64_t row = 0; row < batch.rows; row++) {
        const int64_t length = batch.lengths[row];
        const double factor = factors[row];
        for (int64_t t = 0; t < length; t++) {
            const float *from = packed.by_emissions + batch.offset(row, t), *scores = batch.at(row, t);
            float *to = out + batch.offset(row, t);
            for (int64_t k = 0; k < tags; k++) {
                to[k] = is_forbidden(scores[k]) ? 0.0f : float(from[k] * factor);
                if (t == 0) by_scores.by_start[k] += from[k] * factor;
                if (t == length - 1) by_scores.by_end[k] += from[k] * factor;
            }
        }
        const float *from = packed.by_transitions + row * tags * tags;
        for (int64_t i = 0; i < tags * tags; i++) by_scores.by_transitions[i] += from[i] * factor;
    }
    by_scores.write(call, out);
}

// Posteriors in the layout of the emissions, 0 on padding.
inline void marginals(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    call.model.exponentiate();
    const Batch &batch = call.batch;
    const int64_t tags = batch.tags;
    clear(out, size);
    share_out<Space>(call.groups.size(), cost_of(call, 2.0), [&](size_t i, Space &space) {
        for_each_row(call, call.groups[i], nullptr, space, [&](int64_t row, int lane, const Sums &sums, const Exact *exact) {
            for (int64_t t = 0; t < batch.lengths[row]; t++) {
                float *to = out + batch.offset(row, t);
                for (int64_t k = 0; k < tags; k++) {
                    to[k] = float(exact ? exact->marginals[t * tags + k] : sums.marginals[t * tags + k][lane]);
                }
            }
        });
    });
    auto spoil = [&](int64_t row, int64_t length) {
        for (int64_t t = 0; t < length; t++) std::fill_n(out + batch.offset(row, t), tags, float(NOT_A_NUMBER));
    };
    for (int64_t row : call.faulty) spoil(row, batch.lengths[row]);
    for (int64_t row = 0; row < batch.rows; row++) {
        if (call.is_void(row)) spoil(row, batch.length);
    }
}

// Own input: paths (batch, length). Output: posteriors of the tags of the paths (batch, length), then the posterior of
// every tag given the previous tag of the path (batch, length, tags). The latter are exact for paths with the fewest
// violations.
inline void path_posteriors(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    call.model.exponentiate();
    const Batch &batch = call.batch;
    const Model &model = call.model;
    const int64_t tags = batch.tags, length = batch.length;
    const std::vector<int64_t> paths = arguments.integers(OWN, 0, tags - 1);
    float *chosen = out, *conditional = out + batch.rows * length;
    clear(out, size);

    auto by_products = [&](int64_t row, int lane, const Sums &sums) {
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            const int64_t at = row * length + t;
            const double *step = t > 0 ? &model.step[paths[at - 1] * tags] : model.first.data();
            double total = 0.0, largest = 0.0;
            for (int64_t k = 0; k < tags; k++) {
                const double after = sums.after[t * tags + k][lane];
                total += step[k] * after;
                largest = std::max(largest, after);
            }
            if (!(total >= SMALLEST * largest) || total <= 0.0) return false;
            for (int64_t k = 0; k < tags; k++) {
                conditional[at * tags + k] = float(step[k] * sums.after[t * tags + k][lane] / total);
            }
            chosen[at] = float(sums.marginals[t * tags + paths[at]][lane]);
        }
        return true;
    };
    auto by_logarithms = [&](int64_t row, const Exact &exact) {
        std::vector<Weight> weights(tags);
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            const int64_t at = row * length + t;
            for (int64_t k = 0; k < tags; k++) {
                const double step = t > 0 ? model.transitions[paths[at - 1] * tags + k] : model.start[k];
                weights[k] = Weight::of(step) * exact.onward[t * tags + k];
            }
            const Weight total = sum_of(weights);
            for (int64_t k = 0; k < tags; k++) conditional[at * tags + k] = float(share(weights[k], total));
            chosen[at] = float(exact.marginals[t * tags + paths[at]]);
        }
    };
    share_out<Space>(call.groups.size(), cost_of(call, 2.0), [&](size_t i, Space &space) {
        for_each_row(call, call.groups[i], nullptr, space, [&](int64_t row, int lane, const Sums &sums, const Exact *exact) {
            if (exact == nullptr && by_products(row, lane, sums)) return;
            if (exact == nullptr) forward_backward(model, batch, row, nullptr, space.exact);
            by_logarithms(row, space.exact);
        });
    });
    auto spoil = [&](int64_t row) {
        std::fill_n(chosen + row * length, length, float(NOT_A_NUMBER));
        std::fill_n(conditional + row * length * tags, length * tags, float(NOT_A_NUMBER));
    };
    for (int64_t row : call.faulty) spoil(row);
    for (int64_t row = 0; row < batch.rows; row++) {
        if (call.is_void(row)) spoil(row);
    }
}

}  // namespace chain
