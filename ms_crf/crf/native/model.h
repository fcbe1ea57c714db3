// The scores of a chain and the batch of sentences, in the form that all recursions read.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.h"

namespace chain {

const double FORBIDDEN = -std::ldexp(1.0, 100);  // below every sum of real scores; multiples are exact
const double LEAST = -std::ldexp(1.0, 80);       // scores below it forbid
const double VIOLATION = 1e4;                    // cost of a forbidden tag or step in a loss
const double LOWEST = -3.4028234663852886e38;    // score of a missing path
const double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// Whether a score of the caller is nan or +inf.
inline bool is_faulty(float score) { return !(score <= std::numeric_limits<float>::max()); }

inline bool is_forbidden(double score) { return score < LEAST; }

// Transitions, start and end, with FORBIDDEN for forbidden scores.
struct Model {
    int64_t tags;
    std::vector<double> transitions, start, end;       // entry i * tags + j scores tag j after tag i
    std::vector<double> step, step_back, first, last;  // exp(score - largest); step_back is transposed: [j, i]
    double largest[3];                                 // of transitions, of start and of end
    std::vector<char> usable;                          // tags that occur in some allowed path
    bool faulty = false;                               // whether a score is nan or +inf

    // allowed: tags * tags + 2 * tags bools, or null.
    Model(const float *transitions_, const float *start_, const float *end_, const bool *allowed, int64_t tags_)
        : tags(tags_) {
        largest[0] = read(transitions_, allowed, tags * tags, transitions);
        largest[1] = read(start_, allowed ? allowed + tags * tags : nullptr, tags, start);
        largest[2] = read(end_, allowed ? allowed + tags * tags + tags : nullptr, tags, end);
    }

    // Computes the members that only the recursion by scaled products needs.
    void exponentiate() {
        power(transitions, largest[0], step);
        step_back.resize(step.size());
        for (int64_t i = 0; i < tags; i++) {
            for (int64_t j = 0; j < tags; j++) step_back[j * tags + i] = step[i * tags + j];
        }
        power(start, largest[1], first);
        power(end, largest[2], last);
        std::vector<char> from_start = closure(start, false), to_end = closure(end, true);
        usable.resize(tags);
        for (int64_t k = 0; k < tags; k++) usable[k] = from_start[k] && to_end[k];
    }

    // Sum of the scores that were subtracted from the factors of a path with `length` tags.
    double taken_out(int64_t length) const { return largest[0] * double(length - 1) + largest[1] + largest[2]; }

    bool may_follow(int64_t i, int64_t j) const { return !is_forbidden(transitions[i * tags + j]); }

   private:
    // Fills `scores`; returns the largest.
    double read(const float *given, const bool *allowed, int64_t count, std::vector<double> &scores) {
        double most = FORBIDDEN;
        scores.resize(count);
        for (int64_t i = 0; i < count; i++) {
            bool open = allowed == nullptr || allowed[i];
            faulty = faulty || (open && is_faulty(given[i]));
            scores[i] = open && !is_forbidden(given[i]) ? given[i] : FORBIDDEN;
            most = std::max(most, scores[i]);
        }
        return most;
    }

    // Tags that can be reached by allowed steps from the tags that `scores` allow; backward in time if `reversed`.
    std::vector<char> closure(const std::vector<double> &scores, bool reversed) const {
        std::vector<char> seen(tags);
        std::vector<int64_t> waiting;
        for (int64_t k = 0; k < tags; k++) {
            seen[k] = !is_forbidden(scores[k]);
            if (seen[k]) waiting.push_back(k);
        }
        while (!waiting.empty()) {
            int64_t i = waiting.back();
            waiting.pop_back();
            for (int64_t j = 0; j < tags; j++) {
                if (!seen[j] && (reversed ? may_follow(j, i) : may_follow(i, j))) {
                    seen[j] = 1;
                    waiting.push_back(j);
                }
            }
        }
        return seen;
    }

    static void power(const std::vector<double> &scores, double most, std::vector<double> &powers) {
        powers.resize(scores.size());
        for (size_t i = 0; i < scores.size(); i++) {
            powers[i] = is_forbidden(scores[i]) ? 0.0 : std::exp(scores[i] - most);
        }
    }
};

// The batch: the layout of the emissions, and the length of each row.
struct Batch {
    const float *emissions;
    int64_t rows, length, tags, row_stride, time_stride;
    std::vector<int64_t> lengths;                      // clipped to 0 to length
    std::vector<char> void_length;                     // whether clipping changed the length

    const float *at(int64_t row, int64_t time) const { return emissions + row * row_stride + time * time_stride; }

    // Offset of the tags of a position in a result with the layout of the emissions.
    int64_t offset(int64_t row, int64_t time) const { return row * row_stride + time * time_stride; }

    // Whether a real position has nan or +inf.
    bool is_faulty_row(int64_t row) const {
        bool faulty = false;
        for (int64_t t = 0; t < lengths[row]; t++) {
            const float *scores = at(row, t);
            for (int64_t k = 0; k < tags; k++) faulty |= is_faulty(scores[k]);
        }
        return faulty;
    }
};

// Known tags of the batch, row by row: below the number of tags, or -1 where unknown.
struct Known {
    int64_t length;
    std::vector<int32_t> values;                       // (rows, length)

    int32_t at(int64_t row, int64_t time) const { return values[row * length + time]; }
};

// Whether a path may have this tag at a position: the known tag is the same, or unknown. `known` may be null: all tags
// are unknown then.
inline bool agrees(const Known *known, int64_t row, int64_t time, int64_t tag) {
    int32_t given = known == nullptr ? -1 : known->at(row, time);
    return given < 0 || given == tag;
}

}  // namespace chain
