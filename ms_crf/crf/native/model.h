// The scores of a chain and its sentences, as all recursions read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.h"

namespace chain {

const double FORBIDDEN = -std::ldexp(1.0, 100);  // outweighs any sum of real scores; twice is twice without rounding
const double LEAST = -std::ldexp(1.0, 80);       // a score below it forbids
const double VIOLATION = 1e4;                    // what a forbidden tag or step costs in a loss
const double LOWEST = -3.4028234663852886e38;    // the score of a path that is not there
const double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// A score as a caller gave it: nan or +inf.
inline bool is_faulty(float score) { return !(score <= std::numeric_limits<float>::max()); }

inline bool is_forbidden(double score) { return score < LEAST; }

// Transitions, start and end: each score, or FORBIDDEN.
struct Model {
    int64_t tags;
    std::vector<double> transitions, start, end;       // entry i * tags + j scores tag j after tag i
    std::vector<double> step, step_back, first, last;  // exp of each, its largest brought to 1; back: [j, i]
    double largest[3];                                 // of transitions, start and end
    std::vector<char> usable;                          // tags that an allowed path of some length goes through
    bool faulty = false;                               // nan or +inf among them

    // allowed: tags * tags + 2 * tags bools, or null.
    Model(const float *transitions_, const float *start_, const float *end_, const bool *allowed, int64_t tags_)
        : tags(tags_) {
        largest[0] = read(transitions_, allowed, tags * tags, transitions);
        largest[1] = read(start_, allowed ? allowed + tags * tags : nullptr, tags, start);
        largest[2] = read(end_, allowed ? allowed + tags * tags + tags : nullptr, tags, end);
    }

    // What the recursion by products needs besides.
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

    // The logarithm of what was taken out of the factors of a path of so many tags.
    double taken_out(int64_t length) const { return largest[0] * double(length - 1) + largest[1] + largest[2]; }

    bool may_follow(int64_t i, int64_t j) const { return !is_forbidden(transitions[i * tags + j]); }

   private:
    // Returns the largest.
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

    // Tags that allowed steps lead to from those that `scores` allow; back in time if `reversed`.
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

// The batch: where the emissions of a row stand, and how many of them are real.
struct Batch {
    const float *emissions;
    int64_t rows, length, tags, row_stride, time_stride;
    std::vector<int64_t> lengths;                      // brought into 0 to length
    std::vector<char> void_length;                     // whether that changed it

    const float *at(int64_t row, int64_t time) const { return emissions + row * row_stride + time * time_stride; }

    // Where in a result of the emissions' layout they stand.
    int64_t offset(int64_t row, int64_t time) const { return row * row_stride + time * time_stride; }

    // nan or +inf at a real position.
    bool is_faulty_row(int64_t row) const {
        bool faulty = false;
        for (int64_t t = 0; t < lengths[row]; t++) {
            const float *scores = at(row, t);
            for (int64_t k = 0; k < tags; k++) faulty |= is_faulty(scores[k]);
        }
        return faulty;
    }
};

// Tags of the batch, row by row, as far as they are known: -1 where not, and below the number of tags.
struct Known {
    int64_t length;
    std::vector<int32_t> values;                       // rows * length

    int32_t at(int64_t row, int64_t time) const { return values[row * length + time]; }
};

// Whether a path may have the tag there: it is the known one, or none is known. Null where nothing is.
inline bool agrees(const Known *known, int64_t row, int64_t time, int64_t tag) {
    int32_t given = known == nullptr ? -1 : known->at(row, time);
    return given < 0 || given == tag;
}

}  // namespace chain
