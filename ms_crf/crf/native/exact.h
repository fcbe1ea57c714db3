// Forward and backward recursion in the log domain, row by row: for scores that scaled products cannot represent, and
// for rows in which every path is forbidden.
//
// A weight has two parts: a number of violations (forbidden tags and steps), and the logarithm of a sum. A sum of
// weights is over the paths with the fewest violations. A product of weights adds both parts.
#pragma once

#include "model.h"

namespace chain {

struct Weight {
    int64_t breaks;
    double logarithm;

    // The weight of a tag that is not the known tag.
    static Weight none() { return {int64_t(1) << 40, -std::numeric_limits<double>::infinity()}; }

    static Weight of(double score) { return is_forbidden(score) ? Weight{1, 0.0} : Weight{0, score}; }

    double price() const { return logarithm - VIOLATION * double(breaks); }
};

inline Weight operator*(Weight a, Weight b) { return {a.breaks + b.breaks, a.logarithm + b.logarithm}; }

inline Weight sum_of(const std::vector<Weight> &weights) {
    Weight total = Weight::none();
    double peak = -std::numeric_limits<double>::infinity();
    for (const Weight &weight : weights) total.breaks = std::min(total.breaks, weight.breaks);
    for (const Weight &weight : weights) {
        if (weight.breaks == total.breaks) peak = std::max(peak, weight.logarithm);
    }
    if (std::isinf(peak)) return Weight::none();
    double sum = 0.0;
    for (const Weight &weight : weights) {
        if (weight.breaks == total.breaks) sum += std::exp(weight.logarithm - peak);
    }
    total.logarithm = peak + std::log(sum);
    return total;
}

// The weight as a fraction of the sum.
inline double share(Weight weight, Weight sum) {
    return weight.breaks == sum.breaks ? std::exp(weight.logarithm - sum.logarithm) : 0.0;
}

// Results of one row.
struct Exact {
    double log_normalizer;                 // of emissions whose largest at each position is 0
    std::vector<double> marginals, pairs;  // (length, tags), (tags, tags)
    std::vector<Weight> onward;            // (length, tags), of a tag and everything after it
};

inline void forward_backward(const Model &model, const Batch &batch, int64_t row, const Known *known, Exact &exact) {
    const int64_t tags = model.tags, length = batch.lengths[row];
    std::vector<Weight> emissions(length * tags), before(length * tags), after(length * tags), sums(tags);
    for (int64_t t = 0; t < length; t++) {
        const float *scores = batch.at(row, t);
        const double peak = *std::max_element(scores, scores + tags);
        for (int64_t k = 0; k < tags; k++) {
            Weight weight = is_forbidden(peak) ? Weight{0, 0.0}
                : is_forbidden(scores[k]) ? Weight{1, 0.0} : Weight{0, double(scores[k]) - peak};
            emissions[t * tags + k] = agrees(known, row, t, k) ? weight : Weight::none();
        }
    }
    for (int64_t t = 0; t < length; t++) {
        for (int64_t j = 0; j < tags; j++) {
            for (int64_t i = 0; t > 0 && i < tags; i++) {
                sums[i] = before[(t - 1) * tags + i] * Weight::of(model.transitions[i * tags + j]);
            }
            const Weight arriving = t > 0 ? sum_of(sums) : Weight::of(model.start[j]);
            before[t * tags + j] = arriving * emissions[t * tags + j];
        }
    }
    exact.onward.resize(length * tags);
    for (int64_t t = length - 1; t >= 0; t--) {
        for (int64_t i = 0; i < tags; i++) {
            for (int64_t j = 0; t < length - 1 && j < tags; j++) {
                sums[j] = Weight::of(model.transitions[i * tags + j]) * exact.onward[(t + 1) * tags + j];
            }
            after[t * tags + i] = t < length - 1 ? sum_of(sums) : Weight::of(model.end[i]);
            exact.onward[t * tags + i] = emissions[t * tags + i] * after[t * tags + i];
        }
    }
    exact.marginals.resize(length * tags);
    exact.pairs.assign(tags * tags, 0.0);
    Weight total{0, 0.0};
    for (int64_t t = 0; t < length; t++) {
        for (int64_t k = 0; k < tags; k++) sums[k] = before[t * tags + k] * after[t * tags + k];
        total = sum_of(sums);
        for (int64_t k = 0; k < tags; k++) exact.marginals[t * tags + k] = share(sums[k], total);
        for (int64_t i = 0; t > 0 && i < tags; i++) {
            for (int64_t j = 0; j < tags; j++) {
                const Weight step = before[(t - 1) * tags + i] * Weight::of(model.transitions[i * tags + j]);
                exact.pairs[i * tags + j] += share(step * exact.onward[t * tags + j], total);
            }
        }
    }
    exact.log_normalizer = total.price();
}

}  // namespace chain
