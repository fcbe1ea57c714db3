// Forward and backward recursion by scaled products, with sum 1 at each position, for several rows at a time.
#pragma once

#include "model.h"

namespace chain {

// A sum of products below this number may have lost relevant terms to underflow. Above it the lost terms are
// negligible, and a quotient by two such sums does not overflow.
constexpr double SMALLEST = 1e-140;

// Rows of the batch that are computed together, one in each lane.
struct Group {
    int count = 0;
    int64_t rows[LANES], lengths[LANES], longest = 0;

    void add(int64_t row, int64_t length) {
        rows[count] = row;
        lengths[count++] = length;
        longest = std::max(longest, length);
    }

    Marks live(int64_t t) const {
        Marks marks{};
        for (int lane = 0; lane < count; lane++) marks[lane] = t < lengths[lane] ? -1 : 0;
        return marks;
    }
};

// Results and buffers of a group: index t * tags + k, one lane for each row; 0 on padding.
struct Sums {
    Buffer potentials;                     // exp(emission - largest emission of the position)
    Buffer before;                         // weight of all paths up to and including a tag, with sum 1
    Buffer after;                          // weight of a tag and everything after it; `before` at the previous position
                                           // times the step times `after` is the posterior of the step
    Buffer marginals, pairs;               // posteriors (longest, tags), and of steps without the factor of the step
    Buffer arriving, turned, scales;
    double log_normalizer[LANES];          // of emissions whose largest at each position is 0
    bool reliable[LANES];                  // whether every relevant term is represented; if not, results are invalid
};

// The logarithm of a product of many factors, computed for many factors at once. In rows with valid results, no factor
// is below SMALLEST.
class Product {
   public:
    void multiply(Lanes factor) {
        product_ *= factor;
        int64_t small = 0;
        const Marks low = product_ < all(1e-20);
        for (int lane = 0; lane < LANES; lane++) small |= low[lane];
        if (small) flush();
    }

    double logarithm(int lane) {
        flush();
        return sums_[lane];
    }

   private:
    void flush() {
        for (int lane = 0; lane < LANES; lane++) sums_[lane] += std::log(product_[lane]);
        product_ = all(1.0);
    }

    Lanes product_ = all(1.0);
    double sums_[LANES] = {};
};

inline void read_potentials(const Batch &batch, const Group &group, const Known *known, Buffer &potentials) {
    const int64_t tags = batch.tags;
    potentials.resize(group.longest * tags);
    for (int64_t t = 0; t < group.longest; t++) {
        Lanes *here = &potentials[t * tags];
        for (int lane = 0; lane < LANES; lane++) {
            const bool real = lane < group.count && t < group.lengths[lane];
            const float *scores = real ? batch.at(group.rows[lane], t) : nullptr;
            float peak = real ? *std::max_element(scores, scores + tags) : 0.0f;
            if (!real || is_forbidden(peak)) {         // if all tags are forbidden, they count as equal
                for (int64_t k = 0; k < tags; k++) here[k][lane] = 0.0;
            } else {
                for (int64_t k = 0; k < tags; k++) here[k][lane] = double(scores[k]) - peak;
            }
        }
        for (int64_t k = 0; k < tags; k++) here[k] = exponential(here[k]);
        for (int lane = 0; known != nullptr && lane < group.count; lane++) {
            for (int64_t k = 0; t < group.lengths[lane] && k < tags; k++) {
                if (!agrees(known, group.rows[lane], t, k)) here[k][lane] = 0.0;
            }
        }
    }
}

// result[j] = sum over i of left[i] * step[i * tags + j], four columns at a time.
inline void multiply(const Lanes *left, const double *step, int64_t tags, Lanes *result) {
    int64_t j = 0;
    for (; j + 4 <= tags; j += 4) {
        Lanes a{}, b{}, c{}, d{};
        for (int64_t i = 0; i < tags; i++) {
            const double *row = step + i * tags + j;
            const Lanes value = left[i];
            a += value * row[0];
            b += value * row[1];
            c += value * row[2];
            d += value * row[3];
        }
        result[j] = a;
        result[j + 1] = b;
        result[j + 2] = c;
        result[j + 3] = d;
    }
    for (; j < tags; j++) {
        Lanes sum{};
        for (int64_t i = 0; i < tags; i++) sum += left[i] * step[i * tags + j];
        result[j] = sum;
    }
}

// pairs[i, j] = sum over t >= 1 of before[t - 1, i] * after[t, j], in blocks of three by three.
inline void add_up_pairs(const Buffer &before, const Buffer &after, int64_t length, int64_t tags, Buffer &pairs) {
    constexpr int64_t SIDE = 3;
    pairs.assign(tags * tags, Lanes{});
    for (int64_t i = 0; i < tags; i += SIDE) {
        for (int64_t j = 0; j < tags; j += SIDE) {
            if (i + SIDE <= tags && j + SIDE <= tags) {
                Lanes sums[SIDE][SIDE] = {};
                for (int64_t t = 1; t < length; t++) {
                    const Lanes *left = &before[(t - 1) * tags + i], *right = &after[t * tags + j];
                    for (int64_t a = 0; a < SIDE; a++) {
                        for (int64_t b = 0; b < SIDE; b++) sums[a][b] += left[a] * right[b];
                    }
                }
                for (int64_t a = 0; a < SIDE; a++) {
                    for (int64_t b = 0; b < SIDE; b++) pairs[(i + a) * tags + j + b] = sums[a][b];
                }
                continue;
            }
            for (int64_t a = i; a < std::min(i + SIDE, tags); a++) {
                for (int64_t b = j; b < std::min(j + SIDE, tags); b++) {
                    Lanes sum{};
                    for (int64_t t = 1; t < length; t++) sum += before[(t - 1) * tags + a] * after[t * tags + b];
                    pairs[a * tags + b] = sum;
                }
            }
        }
    }
}

// Whether every sum that is too small belongs to a tag that no allowed path reaches; for one row and one direction.
inline bool is_small_because_forbidden(const Model &model, const Batch &batch, const Group &group, int lane,
                                       const Known *known, const Sums &sums, bool backward) {
    const int64_t tags = model.tags, length = group.lengths[lane], row = group.rows[lane];
    std::vector<char> reached(tags), next(tags);
    std::vector<double> weight(tags);
    for (int64_t n = 0; n < length; n++) {
        const int64_t t = backward ? length - 1 - n : n;
        const float *scores = batch.at(row, t);
        const bool closed = is_forbidden(*std::max_element(scores, scores + tags));      // then all tags count as equal
        double total = 0.0;
        for (int64_t j = 0; j < tags; j++) {
            bool way = n == 0 && !is_forbidden(backward ? model.end[j] : model.start[j]);
            double sum = 0.0;
            for (int64_t i = 0; n > 0 && i < tags; i++) {
                const int64_t entry = backward ? j * tags + i : i * tags + j;
                way = way || (reached[i] && !is_forbidden(model.transitions[entry]));
                sum += weight[i] * model.step[entry];
            }
            if (n > 0 && way && model.usable[j] && sum < SMALLEST) return false;
            next[j] = way && agrees(known, row, t, j) && (closed || !is_forbidden(scores[j]));
        }
        reached = next;
        for (int64_t j = 0; j < tags; j++) total += (backward ? sums.after : sums.before)[t * tags + j][lane];
        for (int64_t j = 0; j < tags; j++) weight[j] = (backward ? sums.after : sums.before)[t * tags + j][lane] / total;
    }
    return true;
}

// The smallest sum that arrives at a usable tag, in the lanes with a real position.
inline Lanes least_of(const Model &model, const Lanes *arriving, Marks live, Lanes least) {
    for (int64_t k = 0; k < model.tags; k++) {
        if (model.usable[k]) least = choose(live & (arriving[k] < least), arriving[k], least);
    }
    return least;
}

// Computes all results of a group.
inline void forward_backward(const Model &model, const Batch &batch, const Group &group, const Known *known,
                             Sums &sums) {
    const int64_t tags = model.tags, longest = group.longest;
    const Lanes one = all(1.0);
    read_potentials(batch, group, known, sums.potentials);
    sums.before.resize(longest * tags);
    sums.after.resize(longest * tags);
    sums.marginals.resize(longest * tags);
    sums.arriving.resize(tags);
    sums.turned.resize(tags);
    sums.scales.resize(longest);
    Lanes *arriving = sums.arriving.data(), *turned = sums.turned.data();
    Lanes least[2] = {one, one}, least_total = one;    // forward and backward
    Product product;

    for (int64_t k = 0; k < tags; k++) arriving[k] = all(model.first[k]);
    for (int64_t t = 0; t < longest; t++) {
        const Marks live = group.live(t);
        const Lanes *potentials = &sums.potentials[t * tags];
        Lanes *before = &sums.before[t * tags];
        if (t > 0) {
            multiply(before - tags, model.step.data(), tags, arriving);
            least[0] = least_of(model, arriving, live, least[0]);
        }
        Lanes sum{};
        for (int64_t k = 0; k < tags; k++) {
            before[k] = arriving[k] * potentials[k];
            sum += before[k];
        }
        least_total = choose(live & (sum < least_total), sum, least_total);
        sum = choose(sum > all(SMALLEST), sum, one);
        product.multiply(choose(live, sum, one));
        sums.scales[t] = sum;
        const Lanes scale = one / sum;
        for (int64_t k = 0; k < tags; k++) before[k] *= scale;
    }

    for (int64_t k = 0; k < tags; k++) arriving[k] = all(model.last[k]);
    for (int64_t t = longest - 1; t >= 0; t--) {
        const Marks live = group.live(t), last = live & ~group.live(t + 1);
        const Lanes *before = &sums.before[t * tags], *potentials = &sums.potentials[t * tags];
        Lanes *after = &sums.after[t * tags], *marginals = &sums.marginals[t * tags];
        Lanes total{}, weight{};
        for (int64_t k = 0; k < tags; k++) {
            marginals[k] = before[k] * arriving[k];
            total += marginals[k];
            after[k] = potentials[k] * arriving[k];
            weight += after[k];
        }
        least_total = choose(live & (total < least_total), total, least_total);
        total = choose(total > all(SMALLEST), total, one);
        product.multiply(choose(last, total, one));
        const Lanes share = choose(live, one / total, Lanes{}), step_share = share / sums.scales[t];
        const Lanes scale = one / choose(weight > all(SMALLEST), weight, one);
        for (int64_t k = 0; k < tags; k++) {
            marginals[k] *= share;
            turned[k] = after[k] * scale;
            after[k] *= step_share;
        }
        if (t == 0) break;
        multiply(turned, model.step_back.data(), tags, arriving);
        least[1] = least_of(model, arriving, live, least[1]);
        // Lanes in which this position is padding still have the end scores: their rows end at an earlier position.
        for (int64_t k = 0; k < tags; k++) arriving[k] = choose(live, arriving[k], all(model.last[k]));
    }
    add_up_pairs(sums.before, sums.after, longest, tags, sums.pairs);

    for (int lane = 0; lane < group.count; lane++) {
        sums.log_normalizer[lane] = product.logarithm(lane) + model.taken_out(group.lengths[lane]);
        bool reliable = least_total[lane] >= SMALLEST;
        for (int backward = 0; backward < 2 && reliable; backward++) {
            reliable = least[backward][lane] >= SMALLEST
                || is_small_because_forbidden(model, batch, group, lane, known, sums, backward == 1);
        }
        sums.reliable[lane] = reliable;
    }
}

}  // namespace chain
