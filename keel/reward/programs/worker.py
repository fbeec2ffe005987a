"""The Python side of a user reward: one JSON object per line comes in, one goes out (docs/rewards.md).

Called by Keel as: python3 -c THIS FILE [FUNCTION]. What the user's code prints goes to standard error.
"""

import asyncio
import importlib.util
import inspect
import itertools
import json
import math
import os
import sys
import traceback
import types

USUAL_NAMES = ("compute_score", "reward_func", "reward_function", "reward", "reward_fn")
ANSWER_NAMES = ("ground_truth", "solution", "label", "labels", "target", "reference", "gold")
# Where answers are recognised (keel/data/schema.cpp); keel eval's samples have theirs in gold.
ANSWER_COLUMNS = {"ground_truth", "answer", "solution", "label", "Answer", "Solution", "reward_model", "reward_spec", "gold"}
LOOP = asyncio.new_event_loop()
FAILURES = (Exception, SystemExit, asyncio.CancelledError)  # of the user's code; the process goes on
MOST_CHARACTERS = 1000  # of a reason
TOLD = set()  # places of failures whose traceback was sent
TRACEBACKS = []  # for the next reply
TRL_NAMES = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}


class NoReward(Exception):
    """A file without the function that is asked for: its message says all, and no line of anyone's failed."""


def load_function(path, name):
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(file)[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    own = {key: value for key, value in vars(module).items()
           if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")}
    if name:
        if not callable(getattr(module, name, None)):
            raise NoReward(f"{path} has no function {name}; those that it has: {', '.join(own) or 'none'}")
        return getattr(module, name)
    usual = [key for key in USUAL_NAMES if callable(getattr(module, key, None))]
    if usual or len(own) == 1:
        return getattr(module, (usual or list(own))[0])
    raise NoReward(f"{path}: which function is the reward? Write python:{path}:NAME; there is {', '.join(own) or 'none'}")


def number(value):
    """A reward as a float, or None."""
    if isinstance(value, dict):
        value = value["score"]
    if value is None:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"the reward is {value!r} ({type(value).__name__}); expected a number or None")
    if not math.isfinite(value):
        raise ValueError(f"the reward is {value}; expected a finite number")
    return float(value)


def call(function, **named):
    """One event loop serves all calls: a session, lock or semaphore that the user's code made in one works in the next."""
    asyncio.set_event_loop(LOOP)
    result = function(**named)
    return LOOP.run_until_complete(result) if inspect.isawaitable(result) else result


def takes_any_name(parameters):
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def accepted(function, named):
    """Those of the named arguments that the function takes."""
    parameters = inspect.signature(function).parameters
    return named if takes_any_name(parameters) else {key: named[key] for key in named if key in parameters}


def columns_of(request):
    """The data set's other columns by name, each a list over the samples."""
    rows = [row if isinstance(row, dict) else {} for row in request["extra"]]
    names = dict.fromkeys(key for row in rows for key in row)
    return {name: [row.get(name) for row in rows] for name in names}


def have_answers(request):
    """Whether rows like these have answers at all, though these may lack theirs. A task's rows have no columns."""
    return any(answer is not None for answer in request["answers"]) or any(
        not isinstance(row, dict) or not ANSWER_COLUMNS.isdisjoint(row) for row in request["extra"])


def require_answer(parameters, names, columns):
    """None for every row would be compared with, and nobody told."""
    for name in names:
        if name in parameters and name not in columns and parameters[name].default is inspect.Parameter.empty:
            raise TypeError(f'the function asks for "{name}", and no column has that name or was recognised as the answer; '
                            f"the columns are {', '.join(columns) or 'none'}; data.answer_key names the answer's")


def call_trl(function, request):
    """TRL: reward(prompts, completions, completion_ids, <columns>, trainer_state, ...) -> list of numbers."""
    named = columns_of(request)
    for taken in ("prompts", "completion", "completions"):
        named.pop(taken, None)
    parameters = inspect.signature(function).parameters
    if have_answers(request):
        for name in ("answer",) + tuple(name for name in ANSWER_NAMES if name in parameters):
            named.setdefault(name, request["answers"])
    else:
        require_answer(parameters, ("answer",) + ANSWER_NAMES, named)
    named.setdefault("data_source", request["sources"])
    if None not in request["completion_ids"]:
        named["completion_ids"] = request["completion_ids"]
    elif "completion_ids" in parameters:
        raise ValueError("the function asks for completion_ids, and the completions come without tokens; "
                         "give the rows a column completion_ids")
    named["trainer_state"] = types.SimpleNamespace(global_step=max(request["steps"], default=0))
    named["log_extra"] = named["log_metric"] = lambda *arguments, **ignored: None
    prompts, completions = [], []
    # As in TRL the row's own form decides, whatever the model was given.
    for text, messages, completion in zip(request["texts"], request["messages"], request["completions"]):
        prompts.append(text if messages is None else messages)
        completions.append(completion if messages is None else [{"role": "assistant", "content": completion}])
    named["prompts"], named["completions"] = prompts, completions
    return call(function, **accepted(function, named))


def extra_info(row):
    """What verl's reward managers pass: the column of that name, else all there are, and two entries of their own."""
    row = row if isinstance(row, dict) else {}
    info = row.get("extra_info", row)
    info = {} if info is None else info
    return {**info, "num_turns": 2, "rollout_reward_scores": {}} if isinstance(info, dict) else info


def call_verl(function, request, i):
    """verl: compute_score(data_source, solution_str, ground_truth, extra_info) -> number or {"score": number}."""
    return call(function, **accepted(function, {"data_source": request["sources"][i], "solution_str": request["completions"][i],
                                                "ground_truth": request["answers"][i],
                                                "extra_info": extra_info(request["extra"][i])}))


def call_verl_batch(function, request):
    """verl's reward_manager batch: the same, with lists of all."""
    return call(function, **accepted(function, {"data_sources": request["sources"], "solution_strs": request["completions"],
                                                "ground_truths": request["answers"],
                                                "extra_infos": [extra_info(row) for row in request["extra"]]}))


def call_openrlhf(function, request):
    """OpenRLHF: reward_func(queries, prompts, labels) -> tensor, list or {"rewards": ...}."""
    result = call(function, **accepted(function, {"queries": request["query"], "prompts": request["prompts"],
                                                  "labels": request["labels"]}))
    return result["rewards"] if isinstance(result, dict) else result


def reason(error):
    """An exception in one line, with the user's line, which is the last one. Half a surrogate pair, which no JSON text may
    hold, is spelled out."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = "its text cannot be had"
    if len(words) > MOST_CHARACTERS:
        words = f"{words[:MOST_CHARACTERS]}... ({len(words)} characters)"
    return f"{type(error).__name__}: {words}{place}".encode("utf-8", "backslashreplace").decode("utf-8")


def note_traceback(error):
    """Where an exception comes from, for the next reply: once for each place, however many completions fail there."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " ".join([type(error).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in frames)])
    if where in TOLD:
        return
    TOLD.add(where)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    TRACEBACKS.append({"where": where, "text": text.encode("utf-8", "backslashreplace").decode("utf-8")})


def judge_each(score_of, count):
    rewards, errors = [], {}
    for i in range(count):
        try:
            rewards.append(number(score_of(i)))
        except FAILURES as error:
            note_traceback(error)
            rewards.append(None)
            errors[str(i)] = reason(error)
    return {"rewards": rewards, "errors": errors}


def judge_batch(result, count):
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, (str, bytes, dict, set, frozenset)) or not hasattr(result, "__iter__"):
        raise TypeError(f"the function returned {result!r} ({type(result).__name__}); expected a list")
    rewards = list(itertools.islice(result, count + 1))  # a generator may have no end
    if len(rewards) != count:
        given = len(result) if hasattr(result, "__len__") else len(rewards) if len(rewards) < count else f"more than {count}"
        # Of all of them: with one completion each a function that always gives one would be right by accident.
        wrong = f"ValueError: the function returned {given} rewards for {count} completions"
        return {"rewards": [None] * count, "errors": {str(i): wrong for i in range(count)}}
    return judge_each(lambda i: rewards[i], count)


def judge_with(function):
    """From a request to its answer, by the parameters of the function. TRL gives all it has by name, so that a function
    of TRL's may take any of it, or just **kwargs."""
    parameters = inspect.signature(function).parameters
    if "completions" not in parameters and "completion_ids" not in parameters:
        if "solution_str" in parameters:
            return lambda r: judge_each(lambda i: call_verl(function, r, i), len(r["completions"]))
        if "solution_strs" in parameters:
            return lambda r: judge_batch(call_verl_batch(function, r), len(r["completions"]))
        if "queries" in parameters:
            return lambda r: judge_batch(call_openrlhf(function, r), len(r["completions"]))
    if not TRL_NAMES.isdisjoint(parameters) or takes_any_name(parameters):
        return lambda r: judge_batch(call_trl(function, r), len(r["completions"]))
    raise NoReward(f"{getattr(function, '__name__', function)}({', '.join(parameters)}) is no reward function that is "
                   "known here; expected TRL's (prompts, completions, **columns), verl's (data_source, solution_str, "
                   "ground_truth, extra_info; or all as lists) or OpenRLHF's (queries, prompts, labels)")


def main():
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8", errors="replace", newline="\n")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):  # what is printed may be any text, and is no reason to fail
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    asyncio.set_event_loop(LOOP)

    def say(reply):
        replies.write(json.dumps(reply, allow_nan=False) + "\n")
        replies.flush()

    try:
        judge = judge_with(load_function(*sys.argv[1:3], *([""] if len(sys.argv) < 3 else [])))
    except FAILURES as error:
        own_words = isinstance(error, NoReward)
        if not own_words:
            traceback.print_exc()
        say({"ready": False, "error": str(error) if own_words else reason(error)})
        return
    say({"ready": True})
    for line in requests:
        request = json.loads(line)
        try:
            reply = judge(request)
        except FAILURES as error:
            note_traceback(error)
            reply = {"error": reason(error)}
        say({"id": request["id"], **reply, **({"tracebacks": TRACEBACKS} if TRACEBACKS else {})})
        TRACEBACKS.clear()


if __name__ == "__main__":
    main()
