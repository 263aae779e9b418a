"""What fault tolerance costs when nothing fails: --ft on against --ft off, in pairs whose order alternates."""
import bars

PAIRS = max(bars.count("SHOW_PAIRS", 21), 1)
RANKS = 2


def time_us(transport, size, iterations, fault_tolerance):
    run = bars.perf("-n", RANKS, "--transport", transport, "-b", size, "-e", size, "--iters", iterations, "-w", 5, "-c", 0,
                    "--placement", "out", "--ft", fault_tolerance, timeout=120, prefix=bars.ahead_of_others())
    if bars.complain(run, f"{transport} {size} --ft {fault_tolerance}"):
        return None
    return run.report["results"][0]["out_of_place"]["time"]


def show(name, rows):
    """`rows`: transport, size, iterations, the largest ratio that will do."""
    good, worst, where = True, 0.0, ""
    for transport, size, iterations, limit in rows:
        ratios, failed = bars.pairs(PAIRS, lambda: time_us(transport, size, iterations, "on"),
                                    lambda: time_us(transport, size, iterations, "off"))
        middle = bars.median(ratios)
        low, high = bars.median_interval(ratios)
        met = failed == 0 and middle <= limit
        bars.say(f"  {transport} {size:>4}: median of {len(ratios)} ratios {middle:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
                 f"goal {limit}{'' if met else '  SHORT'}")
        good = good and met
        if not middle / limit < worst:
            worst, where = middle / limit, f"{middle:.4f} at {transport} {size}"
    bars.finish(name, f"{where}, the worst row", f"at most {', '.join(sorted({str(row[3]) for row in rows}))}", good)
