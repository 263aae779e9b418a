"""What fault tolerance costs when nothing fails: two jobs between the same processes, one with --ft off, take turns on the same
buffers (ftar-perf --against ft=off), so that the ratio of a pair of blocks holds whatever else the machine does. Memory is laid
out anew in every launch, which shifts all ratios of one launch alike: so there are several."""
import bars

LAUNCHES = max(bars.count("SHOW_LAUNCHES", 7), 1)
PAIRS = max(bars.count("SHOW_PAIRS", 41), 21)
RANKS = 2


def ratios(transport, size, batch, iterations, *arguments):
    run = bars.perf("-n", RANKS, "--transport", transport, "--against", "ft=off", *arguments, "--sizes", size, "-m", batch, "--iters",
                    iterations * PAIRS, "--pairs", PAIRS, timeout=300, prefix=bars.ahead_of_others())
    if bars.complain(run, f"{transport} {size}"):
        return []
    return run.report["results"][0]["out_of_place_ideal"]["ratios"]


def by_frames(transport, size, batch, iterations):
    """For information: with --ft off nothing goes through the lane, so that what is small takes another way. Here both go by frames."""
    every = [ratio for _ in range(LAUNCHES) for ratio in ratios(transport, size, batch, iterations, "--set", "lane_max=0")]
    if every:
        low, high = bars.median_interval(every)
        bars.say(f"  {transport} {size:>4}, both by frames (--set lane_max=0), no goal: {bars.median(every):.4f}, {low:.4f} to {high:.4f}")


def show(name, rows):
    """`rows`: transport, size, operations that run back to back, such iterations a block, the largest ratio that will do."""
    good, worst, where = True, 0.0, ""
    for transport, size, batch, iterations, limit in rows:
        launches = [ratios(transport, size, batch, iterations) for _ in range(LAUNCHES)]
        every = [ratio for launch in launches for ratio in launch]
        middle = bars.median(every)
        low, high = bars.median_interval(every)
        met = all(launches) and middle <= limit
        each = " ".join(f"{bars.median(one):.3f}" for one in launches)
        bars.say(f"  {transport} {size:>4}: median of {len(every)} pairs {middle:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
                 f"of the launches {each}, goal {limit}{'' if met else '  SHORT'}")
        good = good and met
        if not middle / limit < worst:
            worst, where = middle / limit, f"{middle:.4f} at {transport} {size}"
    bars.finish(name, f"{where}, the worst row", f"at most {', '.join(sorted({str(row[-1]) for row in rows}))}", good)
