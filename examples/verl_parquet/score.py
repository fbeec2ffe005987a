"""A reward as verl calls it."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    last = solution_str.strip().split()[-1:] or [""]
    return 1.0 if last[0].rstrip(".") == ground_truth else 0.0
