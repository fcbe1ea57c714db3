// Best paths: the Viterbi recursion for several rows at a time, and the n best paths of one row.
//
// Of paths with equal scores, the path with the lowest last tag is chosen, then the lowest tag before it, and so on.
#pragma once

#include "scaled.h"

namespace chain {

typedef int32_t Indices __attribute__((vector_size(LANES * sizeof(int32_t))));

// Emissions of a row at a position minus the largest of them; all 0 if all are forbidden.
inline void lower(const float *scores, int64_t tags, double *lowered) {
    const double peak = *std::max_element(scores, scores + tags);
    for (int64_t k = 0; k < tags; k++) {
        lowered[k] = is_forbidden(peak) ? 0.0 : is_forbidden(scores[k]) ? FORBIDDEN : scores[k] - peak;
    }
}

struct Search {
    Buffer scores, next, ends;             // of the best path to each tag; `ends` includes the end score
    std::vector<Indices> history;          // (longest, tags): the previous tag
};

inline void viterbi(const Model &model, const Batch &batch, const Group &group, Search &search) {
    const int64_t tags = model.tags, longest = group.longest;
    search.scores.resize(tags);
    search.next.resize(tags);
    search.ends.assign(tags, Lanes{});
    search.history.resize(longest * tags);
    std::vector<double> lowered(tags);
    Buffer emissions(tags);
    for (int64_t t = 0; t < longest; t++) {
        for (int lane = 0; lane < group.count; lane++) {
            if (t >= group.lengths[lane]) continue;
            lower(batch.at(group.rows[lane], t), tags, lowered.data());
            for (int64_t k = 0; k < tags; k++) emissions[k][lane] = lowered[k];
        }
        for (int64_t j = 0; j < tags; j++) {
            if (t == 0) {
                search.next[j] = model.start[j] + emissions[j];
                continue;
            }
            Lanes best = search.scores[0] + model.transitions[j];
            Marks chosen{};
            for (int64_t i = 1; i < tags; i++) {
                const Lanes score = search.scores[i] + model.transitions[i * tags + j];
                const Marks better = score > best;
                best = choose(better, score, best);
                chosen = better ? Marks{} + i : chosen;
            }
            search.next[j] = best + emissions[j];
            search.history[t * tags + j] = __builtin_convertvector(chosen, Indices);
        }
        std::swap(search.scores, search.next);
        const Marks ends = group.live(t) & ~group.live(t + 1);
        for (int64_t k = 0; k < tags; k++) {
            search.ends[k] = choose(ends, search.scores[k] + model.end[k], search.ends[k]);
        }
    }
}

// Writes the real positions of the best path of a lane.
inline void walk_back(const Search &search, const Group &group, int lane, int64_t tags, int32_t *path) {
    int32_t tag = 0;
    for (int32_t k = 1; k < tags; k++) {
        if (search.ends[k][lane] > search.ends[tag][lane]) tag = k;
    }
    for (int64_t t = group.lengths[lane] - 1; t >= 0; t--) {
        path[t] = tag;
        if (t > 0) tag = search.history[t * tags + tag][lane];
    }
}

// Score of a path of a row: the sum of its emissions, transitions, start and end scores.
inline double score_of(const Model &model, const Batch &batch, int64_t row, const int32_t *path) {
    const int64_t length = batch.lengths[row];
    double score = model.start[path[0]] + model.end[path[length - 1]];
    for (int64_t t = 0; t < length; t++) {
        const double emission = batch.at(row, t)[path[t]];
        score += is_forbidden(emission) ? FORBIDDEN : emission;
        if (t > 0) score += model.transitions[path[t - 1] * model.tags + path[t]];
    }
    return score;
}

// The n best paths of a row: paths (n, length of the row), and their scores (n,). Missing paths are 0, with the score
// LOWEST.
inline void search_several(const Model &model, const Batch &batch, int64_t row, int64_t n, int32_t *paths, double *scores) {
    const int64_t tags = model.tags, length = batch.lengths[row];
    const double absent = -std::numeric_limits<double>::infinity();
    std::vector<double> before(tags * n, absent), here(tags * n);
    std::vector<int32_t> history(length * tags * n);   // the previous state: tag * n + rank
    std::vector<int64_t> next(tags);
    std::vector<double> lowered(tags);
    lower(batch.at(row, 0), tags, lowered.data());
    for (int64_t k = 0; k < tags; k++) before[k * n] = model.start[k] + lowered[k];

    // Selects the n best paths that lead to one tag. The paths of each previous tag are sorted, so the best remaining
    // path is always the first remaining path of some tag.
    auto choose_best = [&](const double *step, int64_t stride, double emission, double *best, int32_t *states) {
        std::fill(next.begin(), next.end(), 0);
        for (int64_t rank = 0; rank < n; rank++) {
            int64_t chosen = 0;
            double largest = absent;
            for (int64_t i = 0; i < tags; i++) {
                const double head = next[i] < n ? before[i * n + next[i]] + step[i * stride] : absent;
                if (head > largest) {
                    largest = head;
                    chosen = i;
                }
            }
            best[rank] = largest + emission;
            states[rank] = int32_t(chosen * n + std::min(next[chosen], n - 1));
            next[chosen]++;
        }
    };
    for (int64_t t = 1; t < length; t++) {
        lower(batch.at(row, t), tags, lowered.data());
        for (int64_t j = 0; j < tags; j++) {
            choose_best(&model.transitions[j], tags, lowered[j], &here[j * n], &history[(t * tags + j) * n]);
        }
        std::swap(before, here);
    }
    std::vector<double> ends(n);
    std::vector<int32_t> states(n);
    choose_best(model.end.data(), 1, 0.0, ends.data(), states.data());
    for (int64_t rank = 0; rank < n; rank++) {
        int32_t *path = paths + rank * length, state = states[rank];
        scores[rank] = LOWEST;
        std::fill(path, path + length, 0);
        if (ends[rank] == absent) continue;
        for (int64_t t = length - 1; t >= 0; t--) {
            path[t] = int32_t(state / n);
            if (t > 0) state = history[t * tags * n + state];
        }
        const double score = score_of(model, batch, row, path);
        if (score > FORBIDDEN / 2 || std::isnan(score)) {
            scores[rank] = score;
        } else {
            std::fill(path, path + length, 0);
        }
    }
}

}  // namespace chain
