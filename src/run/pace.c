/* pace.c - where fused mode cuts within a stretch that repeats, so that recording and running overlap. The device lock is held in
 * all functions here.
 *
 * A stretch is what is recorded from one host read to the next: a training step, say, whose loss is read. As one program it
 * starts to run when all of it is recorded, and the read waits for all of it; cut behind the loss, the backward pass runs while
 * the next step is recorded. Whether that pays is a matter of measurement: a stretch that keeps coming back is timed whole and
 * with each of a few sets of places to cut, and keeps the fastest. Those that came near it are timed again now and then: what
 * else the machine did meanwhile may have chosen. */
#include <string.h>

#include "run_internal.h"

#define NODES_LEAST 16
#define PIECE_LEAST 4                 /* nodes before, between and behind cuts, */
#define FINE 3                        /* about so many, but at least */
#define FINE_LEAST 2                  /* in the set that cuts most often */
#define LOOP_LEAST 16                 /* nodes of an inner loop's bodies that are cut off together */
#define REPEATS_LEAST 32              /* before it is timed, and */
#define TIME_LEAST INT64_C(700000000) /* ns that it keeps coming back: what ends sooner never pays for other programs */
#define SLOWEST INT64_C(20000000)     /* ns a stretch: of longer ones, recording is a small part */
#define ROUNDS_MOST 10                /* of all sets in turn, but at least */
#define ROUNDS_LEAST 4                /* where they take longer than */
#define TRIAL_TIME INT64_C(500000000) /* ns in all, */
#define ROUNDS_SLOW 3                 /* or so many of those that are slower than the fastest by */
#define SLOW 1.2
#define TURN 3                        /* stretches that are timed in each, */
#define SETTLING 1                    /* after so many that are not */
#define PRIMING 3                     /* stretches with each set before, so that its programs are made, */
#define PATIENCE 4000                 /* or so many, if others keep the compilers busy */
#define PATIENCE_TURN 20              /* stretches that a turn may take */
#define GAIN 0.96                     /* of the time of the whole: what is cut must be faster than that */
#define NEAR 1.25                     /* of the fastest's time: a set that is timed again, */
#define AGAIN INT64_C(2000000000)     /* ns after the first time, and twice as long after each that changed nothing, */
#define AGAIN_MOST INT64_C(60000000000)

bool tpt_pace_cuts(const tpt_dev_t *dev) { return dev->pace.cut_once && dev->graph.nnodes > 0; }

void tpt_pace_clear(tpt_dev_t *dev) {
    tpt_pace_t *p = &dev->pace;
    for (int i = 0; i < TPT_PACE_STRETCHES; i++) tpt_free(p->known[i].plans);
    tpt_free(p->plans);
    memset(p, 0, sizeof *p);
}

static bool room(tpt_pace_t *p) {
    if (p->plans) return true;
    p->plans = tpt_malloc(TPT_PACE_NODES * (sizeof *p->plans + sizeof *p->owned));
    p->owned = p->plans ? (uint32_t *)(void *)(p->plans + TPT_PACE_NODES) : NULL;
    p->expected = p->last = -1;
    return p->plans != NULL;
}

static const tpt_pace_set_t *current_set(const tpt_stretch_t *s) { return &s->sets[s->trial >= 0 ? s->trial : s->best]; }

bool tpt_pace_watch(tpt_dev_t *dev, const tpt_plan_t *plan) {
    tpt_pace_t *p = &dev->pace;
    if (!room(p)) return false;
    if (p->n == TPT_PACE_NODES) {
        p->too_long = true;
        p->expected = -1;
        return false;
    }
    p->plans[p->n] = plan->id;
    p->owned[p->n++] = (uint32_t)dev->graph.nowned;
    if (p->expected < 0) return false;
    const tpt_stretch_t *s = &p->known[p->expected];
    if (p->n > s->n || s->plans[p->n - 1] != plan->id) {
        p->expected = -1;
        return false;
    }
    const tpt_pace_set_t *set = current_set(s);
    while (p->next_cut < set->n && set->at[p->next_cut] < p->n) p->next_cut++;
    if (p->next_cut == set->n || set->at[p->next_cut] != p->n) return false;
    p->cut_once = true;
    return true;
}

bool tpt_pace_leads(const tpt_dev_t *dev) {
    return dev->pace.expected >= 0 && current_set(&dev->pace.known[dev->pace.expected])->n > 0;
}

void tpt_pace_read(tpt_dev_t *dev, int32_t node) {
    if (node >= 0) dev->pace.read_at = dev->pace.n - (uint32_t)dev->graph.nnodes + (uint32_t)node + 1;
}

/* ---- places to cut ------------------------------------------------------------------------------------------------- */

/* Of [from, to] the place where the fewest values are alive: what crosses a cut has to leave the program. */
static uint32_t best_place(const uint32_t *owned, uint32_t from, uint32_t to) {
    uint32_t best = to;
    for (uint32_t i = to; i >= from; i--)
        if (owned[i - 1] < owned[best - 1]) best = i;
    return best;
}

static void add_place(const tpt_stretch_t *s, tpt_pace_set_t *set, uint32_t place, uint32_t least) {
    const uint32_t before = set->n > 0 ? set->at[set->n - 1] : 0;
    if (set->n < TPT_PACE_CUTS && place >= before + least && place + least <= s->n) set->at[set->n++] = place;
}

static bool same_set(const tpt_pace_set_t *a, const tpt_pace_set_t *b) { return a->n == b->n && !memcmp(a->at, b->at, a->n * sizeof *a->at); }

static void add_set(tpt_stretch_t *s, const tpt_pace_set_t *set) {
    if (set->n == 0 || s->nsets == TPT_PACE_SETS) return;
    for (int i = 0; i < s->nsets; i++)
        if (same_set(&s->sets[i], set)) return;
    s->sets[s->nsets++] = *set;
}

/* The length of the bodies that most of the stretch repeats; 0: it holds no loop. */
static uint32_t inner_period(const tpt_stretch_t *s) {
    for (uint32_t period = PIECE_LEAST; period <= s->n / 2; period++) {
        uint32_t equal = 0;
        for (uint32_t i = period; i < s->n; i++) equal += s->plans[i] == s->plans[i - period];
        if ((double)equal >= 0.95 * (double)(s->n - period)) return period;
    }
    return 0;
}

/* Behind every so many bodies of an inner loop. */
static void add_loop(tpt_stretch_t *s, const uint32_t *owned, uint32_t period, uint32_t unit) {
    tpt_pace_set_t set = {0};
    while (s->n / unit > TPT_PACE_CUTS) unit += period;
    for (uint32_t at = best_place(owned, period, 2 * period - 1); at < s->n; at += unit) add_place(s, &set, at, PIECE_LEAST);
    add_set(s, &set);
}

/* Into pieces of about that many nodes, each ending where few values are alive: those of `period` nodes, and then the same
 * again. */
static void add_pieces(tpt_stretch_t *s, const uint32_t *owned, uint32_t period, uint32_t piece, uint32_t least) {
    tpt_pace_set_t set = {0};
    const uint32_t lowest = piece - piece / 3 > least ? piece - piece / 3 : least;
    for (uint32_t at = 0; at + piece < period;) {
        at = best_place(owned, at + lowest, at + piece + piece / 3 < period ? at + piece + piece / 3 : period - 1);
        add_place(s, &set, at, least);
    }
    const uint32_t within = set.n;
    for (uint32_t start = period; within > 0 && start < s->n; start += period)
        for (uint32_t i = 0; i < within; i++) add_place(s, &set, start + set.at[i], least);
    add_set(s, &set);
}

static void choose_sets(tpt_stretch_t *s, const uint32_t *owned) {
    const uint32_t rest = s->n - s->read_at, late = s->n - s->n / 4, period = inner_period(s);
    tpt_pace_set_t set = {0};
    s->nsets = 1; /* the first: no cuts */
    if (period > 0) {
        const uint32_t unit = (LOOP_LEAST + period - 1) / period * period;
        add_loop(s, owned, period, unit);
        add_pieces(s, owned, period, FINE, FINE_LEAST);
        return;
    }
    if (s->read_at > 0 && rest >= 2 * PIECE_LEAST) { /* behind the value that is read, and once more */
        add_place(s, &set, s->read_at, PIECE_LEAST);
        add_place(s, &set, best_place(owned, s->read_at + rest / 3 + 1, s->read_at + 2 * rest / 3 + 1), PIECE_LEAST);
        add_set(s, &set);
    }
    set = (tpt_pace_set_t){0};
    add_place(s, &set, best_place(owned, late - s->n / 8, late + s->n / 8), PIECE_LEAST);
    add_set(s, &set);
    add_pieces(s, owned, s->n, s->n / 4, PIECE_LEAST);
    add_pieces(s, owned, s->n, s->n / FINE < TPT_PACE_CUTS ? FINE : s->n / TPT_PACE_CUTS + 1, FINE_LEAST);
}

/* ---- trials -------------------------------------------------------------------------------------------------------- */

/* The lower quartile: others slow the machine down for many stretches in a row. */
static int64_t usual(int64_t *samples, int n) {
    if (n == 0) return INT64_MAX;
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && samples[k] < samples[k - 1]; k--) {
            const int64_t t = samples[k];
            samples[k] = samples[k - 1];
            samples[k - 1] = t;
        }
    return samples[n / 4];
}

/* All sets have been timed, but for those whose programs never came. The last time counts as much as all before. */
static void decide(tpt_stretch_t *s, int64_t now) {
    int64_t time[TPT_PACE_SETS], least = INT64_MAX;
    for (int i = 0; i < s->nsets; i++) {
        time[i] = usual(s->samples[i], s->nsamples[i]);
        if (time[i] < least) least = time[i];
    }
    const int before = s->best;
    int left = 0;
    double lowest = 0;
    for (int i = 0; i < s->nsets && least < INT64_MAX; i++) {
        if (s->nsamples[i] == 0) continue; /* its score, if it has one, stays */
        const double ratio = (double)time[i] / (double)least;
        s->score[i] = ratio > NEAR ? 0 : s->score[i] > 0 ? (s->score[i] + ratio) / 2 : ratio;
        tpt_log(TPT_LOG_INFO, "  %u cuts from op %u on: %lld us, of %d", s->sets[i].n, s->sets[i].n ? s->sets[i].at[0] : 0,
                (long long)(time[i] / 1000), s->nsamples[i]);
        const double counts = i == 0 ? s->score[i] * GAIN : s->score[i];
        if (s->score[i] == 0) continue;
        left++;
        if (lowest > 0 && counts >= lowest) continue;
        lowest = counts;
        s->best = i;
    }
    s->trial = -1;
    s->pause = s->pause == 0 || s->best != before ? AGAIN : 2 * s->pause < AGAIN_MOST ? 2 * s->pause : AGAIN_MOST;
    s->again = left > 1 ? now + s->pause : INT64_MAX;
    tpt_log(TPT_LOG_INFO, "a stretch of %u ops: %u cuts within", s->n, s->sets[s->best].n);
}

/* The next set that takes a turn: not those that are clearly slower than the fastest, or whose programs never came. The first time
 * the whole stays: all are measured by it. */
static bool is_out(tpt_stretch_t *s, int which) {
    int64_t best = INT64_MAX;
    if (s->pause > 0 && s->score[which] == 0) return true;
    if (which == 0 || s->round <= ROUNDS_SLOW) return false;
    for (int i = 0; i < s->nsets; i++) {
        const int64_t time = usual(s->samples[i], s->nsamples[i]);
        if (time < best) best = time;
    }
    return (double)usual(s->samples[which], s->nsamples[which]) > SLOW * (double)best;
}

static void next_set(tpt_stretch_t *s) {
    do s->trial++;
    while (s->trial < s->nsets && is_out(s, s->trial));
}

static void start_rounds(tpt_stretch_t *s, int64_t each) {
    const int64_t rounds = TRIAL_TIME / ((each + 1) * s->nsets * (SETTLING + TURN));
    s->rounds = (int)(rounds > ROUNDS_MOST ? ROUNDS_MOST : rounds < ROUNDS_LEAST ? ROUNDS_LEAST : rounds);
}

static void try_again(tpt_stretch_t *s) {
    memset(s->nsamples, 0, sizeof s->nsamples);
    start_rounds(s, s->fastest);
    s->settled = s->waited = 0;
    s->round = 1;
    s->trial = -1;
    next_set(s);
}

/* Round 0: what each set needs is met often enough to be compiled in the background, while the stretch goes on whole. */
static void prime(tpt_stretch_t *s) {
    const int next = 1 + s->primed++ / PRIMING;
    s->trial = next < s->nsets ? next : 0;
    if (s->trial > 0 || (tpt_ahead_is_busy() && s->primed < PATIENCE)) return;
    s->round = 1;
}

/* The sets take turns, a few stretches each, so that what slows the machine slows all of them. */
static void trial_sample(tpt_stretch_t *s, int64_t now, int64_t time, bool clean) {
    const int i = s->trial;
    if (!clean) s->settled = 0;
    else if (++s->settled > SETTLING && s->nsamples[i] < TPT_PACE_SAMPLES) s->samples[i][s->nsamples[i]++] = time;
    if (s->settled < SETTLING + TURN && ++s->waited < PATIENCE_TURN) return;
    s->settled = s->waited = 0;
    next_set(s);
    if (s->trial < s->nsets) return;
    s->trial = -1;
    next_set(s);
    if (++s->round > s->rounds) decide(s, now);
}

static void repeated(tpt_pace_t *p, tpt_stretch_t *s, int64_t now) {
    const int64_t time = now - p->ended;
    if (s->repeats++ == 0) s->since = now;
    if (p->clean && (s->fastest == 0 || time < s->fastest)) s->fastest = time;
    if (s->nsets == 0) { /* the first steps wait for compilers: not their time counts, but that of the fastest */
        if (s->repeats < REPEATS_LEAST || now - s->since < TIME_LEAST || s->n < NODES_LEAST) return;
        if (s->fastest == 0 || s->fastest > SLOWEST) return;
        choose_sets(s, p->owned);
        start_rounds(s, s->fastest);
    } else if (s->trial < 0) {
        if (now >= s->again) try_again(s);
    } else if (s->round == 0) {
        prime(s);
    } else {
        trial_sample(s, now, time, p->clean);
    }
}

/* ---- stretches ----------------------------------------------------------------------------------------------------- */

static int find(const tpt_pace_t *p) {
    for (int i = 0; i < TPT_PACE_STRETCHES; i++)
        if (p->known[i].n == p->n && !memcmp(p->known[i].plans, p->plans, p->n * sizeof *p->plans)) return i;
    return -1;
}

/* In the place of the one that has repeated least. */
static int learn(tpt_pace_t *p) {
    int place = 0;
    for (int i = 1; i < TPT_PACE_STRETCHES; i++)
        if (p->known[i].repeats < p->known[place].repeats) place = i;
    for (int i = 0; i < TPT_PACE_STRETCHES; i++) {
        p->known[i].repeats /= 2; /* what is used no more gives way some time */
        if (p->known[i].follower == place) p->known[i].follower = -1;
    }
    tpt_stretch_t *s = &p->known[place];
    tpt_free(s->plans);
    memset(s, 0, sizeof *s);
    s->follower = -1;
    s->plans = tpt_malloc(p->n * sizeof *s->plans);
    if (!s->plans) return -1;
    memcpy(s->plans, p->plans, p->n * sizeof *s->plans);
    s->n = p->n;
    return place;
}

void tpt_pace_end(tpt_dev_t *dev) {
    tpt_pace_t *p = &dev->pace;
    if (p->n == 0) return;
    const int64_t now = tpt_now_ns();
    int which = p->too_long ? -1 : p->expected >= 0 && p->known[p->expected].n == p->n ? p->expected : find(p);
    if (which >= 0) {
        tpt_stretch_t *s = &p->known[which];
        if (p->read_at > 0 && s->read_at == 0) s->read_at = p->read_at;
        repeated(p, s, now);
    } else if (!p->too_long) {
        which = learn(p);
    }
    if (p->last >= 0) p->known[p->last].follower = which;
    p->last = which;
    p->expected = which >= 0 ? p->known[which].follower : -1;
    p->n = p->read_at = p->next_cut = 0;
    p->too_long = p->cut_once = false;
    p->clean = true;
    p->ended = now;
}

void tpt_pace_unclean(tpt_dev_t *dev) { dev->pace.clean = false; }
