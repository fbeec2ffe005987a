#include "keel/reward/functions/program_reward.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>

#include "keel/core/parallel.h"
#include "keel/reward/programs/child_process.h"
#include "tests/support/effort.h"
#include "tests/support/errors.h"
#include "tests/support/reward_samples.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

size_t open_files() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/// Whether the process runs and is not a zombie that waits to be reaped.
bool is_running(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return file >> number >> name >> state && state != "Z";
}

void wait_for_end(pid_t process) {
  while (is_running(process)) usleep(10'000);
}

/// A reward function in a file. Every test also checks that no process remains.
class UserReward : public testing::Test {
 protected:
  void SetUp() override {
    files_before_ = open_files();
    options_.workers = 2;
    options_.timeout = 600;  // only a hang takes so long
  }
  void TearDown() override {
    EXPECT_EQ(open_files(), files_before_);
    const bool none_left = waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    EXPECT_TRUE(none_left) << "a child is left";
  }
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    write_atomically(path, text);
    return path;
  }
  void python(const std::string& text) { options_.functions = {"python:" + file("user.py", text)}; }
  void shell(const std::string& text) { options_.functions = {"exec:sh " + file("user.sh", text)}; }

  const TestFolder made_;
  const std::string folder_ = made_.path.string();
  size_t files_before_ = 0;
  RewardOptions options_;
  SampleBatch batch_;
};

void expect_part(const std::string& text, const std::string& part) { EXPECT_THAT(text, HasSubstr(part)); }

TEST_F(UserReward, SupportsTrlFunctionsWithColumnsAndNone) {
  python(
      "def reward(prompts, completions, length, answer, completion_ids, trainer_state, **kwargs):\n"
      "    assert prompts[0] == 'Question 0? ' and kwargs['data_source'] == ['test'] * 3 and trainer_state.global_step "
      "== 9\n"
      "    print('a print that must not reach the protocol')\n"
      "    return [None if a is None else len(c) * l + len(i) for c, l, a, i in zip(completions, length, answer, "
      "completion_ids)]\n");
  for (const char* completion : {"a", "bb", "ccc"}) {
    batch_.add(completion, completion[0] == 'b' ? Json() : Json("x"));
    batch_.last_prompt().extra = {{"length", batch_.samples().size() * 10}};
    batch_.last().policy_version = 9;
  }
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{13, std::nullopt, 93}));
}

TEST_F(UserReward, PassesTextsToTrlFunctionsForTextRows) {
  python(
      "def reward(completions, prompts, **kwargs): return [float(prompts == ['hi'] and completions == ['hello'])]\n");
  batch_.add("hello");
  batch_.last_prompt().text = "<turn>user: hi<end><turn>assistant: ";
  batch_.last_prompt().row_text = "hi";
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
}

TEST_F(UserReward, PassesTheModelPromptToOpenRlhfFunctions) {
  python("def reward_func(queries, prompts, labels): return [float(queries[0] == prompts[0] + 'hello<eos>')]\n");
  batch_.add("hello").last_prompt().row_text = "hi";
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
}

TEST_F(UserReward, SupportsVerlFunctionsThatReturnDictionaries) {
  python(
      "def helper(x): return x\n"
      "async def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
      "    score = float(solution_str == ground_truth) + extra_info['index']\n"
      "    return {'score': score, 'acc': True} if data_source == 'test' else score\n");
  batch_.add("4", "4").last_prompt().extra = {{"extra_info", {{"index", 10}}}};
  batch_.add("5", "4", "other").last_prompt().extra = {{"index", 20}};
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{11, 20}));
}

TEST_F(UserReward, PassesExtraInfoToVerlFunctions) {
  python(
      "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
      "    assert extra_info == {'index': 3, 'num_turns': 2, 'rollout_reward_scores': {}}, extra_info\n"
      "    return 1 if ground_truth == ['4', 'four'] else 0\n");
  batch_.add("4", Json{"4", "four"}).last_prompt().extra = {{"extra_info", {{"index", 3}}}, {"ability", "math"}};
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
}

TEST_F(UserReward, SupportsBatchedVerlFunctions) {
  python(
      "def compute_score(data_sources, solution_strs, ground_truths, extra_infos):\n"
      "    rows = zip(data_sources, solution_strs, ground_truths, extra_infos)\n"
      "    return [{'score': (d == 'test') + (s == g) + e['index']} for d, s, g, e in rows]\n");
  batch_.add("4", "4").last_prompt().extra = {{"extra_info", {{"index", 10}}}};
  batch_.add("5", "4", "other").last_prompt().extra = {{"extra_info", {{"index", 20}}}};
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{12, 20}));
}

TEST_F(UserReward, PassesOtherColumnsToTrlFunctions) {
  python(
      "def reward(prompts, completions, completion_ids, trainer_state, log_extra, log_metric, **columns):\n"
      "    log_extra('length', [1] * len(prompts)), log_metric('mean', 0.5)\n"
      "    assert completions == ['c'] and completion_ids == [[7, 7, 7]], completions\n"
      "    assert columns == {'level': [2], 'solution': ['x'], 'answer': ['gold'], 'data_source': ['test']}, columns\n"
      "    return [1]\n");
  batch_.add("c", "gold").last_prompt().extra = {
      {"level", 2}, {"solution", "x"}, {"completion", "old"}, {"completion_ids", {1}}};
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
}

TEST_F(UserReward, RejectsADeeplyNestedReplyAndContinues) {
  const std::string deep = "head -c 100000 /dev/zero | tr '\\0' ";
  for (const std::string reply : {"'['", "'{'"}) {
    shell("while read line; do printf '{\"rewards\": [1], \"a\": '; " + deep + reply + "; echo; done\n");
    SampleBatch batch;
    batch.add("x");
    options_.on_error = "stop";
    error_of(5, [&] { score(batch, options_); });
    options_.on_error = "zero";
    EXPECT_EQ(score(batch, options_).totals, (Rewards{0})) << reply;
  }
  shell("while read line; do printf '{\"rewards\": [1], \"a\": '; " + deep + "'['; printf 1; " + deep +
        "']'; echo '}'; done\n");
  SampleBatch batch;
  batch.add("x");
  options_.on_error = "skip";
  const RewardResult result = score(batch, options_);
  ASSERT_EQ(result.failures.size(), 1u);
  expect_part(result.failures[0], "nested deeper than 512 levels");
}

TEST_F(UserReward, AcceptsRowsOfMaximumDepth) {
  python(
      "def reward(completions, tree, **kwargs):\n"
      "    depth = 0\n    while tree:\n        tree, depth = tree[0], depth + 1\n    return [depth]\n");
  batch_.add("x").last_prompt().extra = {{"tree", Json::parse(std::string(511, '[') + std::string(511, ']'))}};
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{511}));
}

TEST_F(UserReward, RejectsABrokenFileBeforeTheRun) {
  python("def reward(completions)\n  return []\n");
  expect_part(error_of(5, [&] { make_reward(options_); }), "SyntaxError");
  python("def reward(x, y): return 0\n");
  expect_part(error_of(5, [&] { make_reward(options_); }), "is not a supported reward function");
  python("import os\nos._exit(3)\n");
  expect_part(error_of(5, [&] { make_reward(options_); }), "exit code 3");
}

/// A verl and a TRL function that misbehave only on the completion "bad".
const std::pair<const char*, const char*> kMisbehaviour[] = {{"raise ValueError('no')", "ValueError: no (user.py:5)"},
                                                             {"sys.exit(0)", "SystemExit"},
                                                             {"os._exit(7)", "exit code 7"},
                                                             {"os.kill(os.getpid(), 11)", "signal 11"},
                                                             {"os.write(REAL, b'garbage\\n')", "garbage"},
                                                             {"return float('nan')", "nan"},
                                                             {"return 'one'", "'one' (str)"},
                                                             {"time.sleep(1000)", "did not answer within 3 s"}};

TEST_F(UserReward, OneBadCompletionDoesNotAffectOthers) {
  for (size_t kind = 0; kind < std::size(kMisbehaviour); ++kind) {
    const auto& [code, reason] = kMisbehaviour[kind];
    for (const bool is_batched : {false, true}) {
      if (!count((kind % 2 == 1) == is_batched, true)) continue;  // alternates between the two, or runs both
      const std::string head =
          "import os, sys, time\nREAL = max(int(x) for x in os.listdir('/proc/self/fd') if "
          "os.path.exists('/proc/self/fd/' + x))\n"
          "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
          "    if solution_str == 'bad':\n        ";
      python(head + code + "\n    return 1.0\n" +
             (is_batched ? "inner = compute_score\ndel compute_score\ndef reward(completions, **k):\n"
                           "    return [inner('', c, '') for c in completions]\n"
                         : ""));
      options_.timeout = std::string(code).starts_with("time") ? 3 : 600;
      SampleBatch batch;
      batch.add("good").add("bad").add("fine");
      options_.on_error = "skip";
      const RewardResult skipped = score(batch, options_);
      EXPECT_EQ(skipped.totals, (Rewards{1, std::nullopt, 1})) << code << is_batched;
      ASSERT_EQ(skipped.failures.size(), 1u) << code << is_batched;
      expect_part(skipped.failures[0], "rollout 1 of prompt 101 (test), \"bad\": ");
      expect_part(skipped.failures[0], reason);
    }
  }
}

TEST_F(UserReward, WrongCountIsNotRetriedWithSingleCompletions) {
  batch_.add("a").add("b").add("c");
  options_.on_error = "skip";
  const auto expect_failures = [&] {
    const RewardResult result = score(batch_, options_);
    EXPECT_EQ(result.totals, Rewards(3));
    ASSERT_EQ(result.failures.size(), 3u);
    expect_part(result.failures[2], "1 rewards for 3 completions");
  };
  python("def reward(completions, **k): return [1.0]\n");
  expect_failures();
  shell("while read -r line; do echo '[1]'; done\n");
  expect_failures();
}

TEST_F(UserReward, ProgramsUseTheSameProtocol) {
  shell(
      "while read -r line; do case $line in *'\"good\"'*) echo '{\"rewards\": [0.25, null]}';; *) echo '[true]';; "
      "esac; done\n");
  batch_.add("good").add("other");
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{0.25, std::nullopt}));
}

TEST_F(UserReward, ReportsProtocolErrorsOfPrograms) {
  options_.on_error = "skip";
  batch_.add("x");
  const auto failure = [&](const std::string& script) {
    shell(script);
    const RewardResult result = score(batch_, options_);
    EXPECT_EQ(result.totals, (Rewards{std::nullopt})) << script;
    return result.failures.empty() ? "" : result.failures[0];
  };
  expect_part(failure("exit 4\n"), "exited without a reply: exit code 4");
  expect_part(failure("while read -r line; do echo hello; done\n"), "answered \"hello\"");
  expect_part(failure("while read -r line; do echo '[1, 2]'; done\n"), "returned 2 rewards for 1 completions");
  expect_part(failure("while read -r line; do echo '[NaN]'; done\n"), "answered \"[NaN]\"");
  expect_part(failure("while read -r line; do echo '[\"1\"]'; done\n"), "expected a number or null");
  expect_part(failure("while read -r line; do echo '{\"id\": 77, \"rewards\": [1]}'; done\n"), "answered request 77");
  expect_part(failure("while read -r line; do echo '{\"error\": \"out of cheese\"}'; done\n"), "out of cheese");
  expect_part(failure("while read -r line; do printf '[1]\\nmore\\n'; done\n"), "more");
  options_.timeout = 0.5;
  expect_part(failure("sleep 1000 & cat > /dev/null; wait\n"), "did not answer within 0.5 s");
}

TEST_F(UserReward, RejectsErrorsOfUnknownCompletions) {
  batch_.add("a", "");
  for (const auto& [reply, part] : std::vector<std::pair<const char*, const char*>>{
           {R"({"rewards": [1], "errors": {"x": "the judge crashed"}})", R"(the judge crashed" for completion "x")"},
           {R"({"rewards": [1], "errors": {"1": "no"}})", R"(for completion "1"; expected 0 to 0)"},
           {R"({"rewards": [1], "errors": {"00": "no"}})", R"(for completion "00"; expected 0 to 0)"},
           {R"({"rewards": [1], "errors": ["no"]})", "expected an object"},
           {R"({"rewards": {"0": 1}})", "expected a list"},
           {R"({"rewards": [1], "rewards": [0]})", "duplicate key"}}) {
    shell("while read line; do echo '" + std::string(reply) + "'; done");
    EXPECT_THAT(error_of(5, [&] { score(batch_, options_); }), HasSubstr(part));
  }
  shell(R"sh(while read line; do printf '{"error": "%s"}\n' "$(head -c 3000000 /dev/zero | tr '\0' x)"; done)sh");
  const std::string error = error_of(5, [&] { score(batch_, options_); });
  EXPECT_THAT(error, HasSubstr("xxx... (3000000 bytes)"));
  EXPECT_LT(error.size(), 30'000u);
  shell(R"(while read line; do echo '{"rewards": [1], "errors": null}'; done)");
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
}

TEST_F(UserReward, GrandchildrenDieWithTheWorker) {
  const std::string note = folder_ + "/pid";
  shell("sleep 1000 & echo $! > " + note + "; while read -r line; do echo no reward; sleep 1000; done\n");
  options_.on_error = "zero";
  batch_.add("x");
  score(batch_, options_);
  std::ifstream file(note);
  pid_t grandchild = 0;
  ASSERT_TRUE(file >> grandchild);
  wait_for_end(grandchild);
}

/// Double-forks a daemon into its own session with closed files, and records its pid.
constexpr const char* kDaemon =
    "import os, time\n"
    "def leave_a_daemon():\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        daemon = os.fork()\n"
    "        if daemon == 0:\n"
    "            os.closerange(0, 1000)\n"
    "            time.sleep(1000)\n"
    "        with open(os.path.join(os.path.dirname(__file__), 'daemons'), 'a') as note:\n"
    "            note.write(f'{daemon}\\n')\n"
    "        os._exit(0)\n"
    "    os.wait()\n";

class Daemons : public UserReward {
 protected:
  /// Counts the daemons and checks that none of them runs.
  size_t count_ended_daemons() {
    std::ifstream file(folder_ + "/daemons");
    size_t count = 0;
    for (pid_t daemon = 0; file >> daemon; ++count) {
      EXPECT_FALSE(is_running(daemon));
      if (is_running(daemon)) ::kill(daemon, SIGKILL);
    }
    return count;
  }
};

TEST_F(Daemons, EndWithWorkersThatReplied) {
  python(std::string(kDaemon) +
         "def reward(completions, **k):\n    leave_a_daemon()\n    return [1.0] * len(completions)\n");
  batch_.add("x");
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{1}));
  EXPECT_EQ(count_ended_daemons(), 1u);
}

TEST_F(Daemons, EndWithAWorkerThatTimedOut) {
  python(std::string(kDaemon) + "def reward(completions, **k):\n    leave_a_daemon()\n    time.sleep(1000)\n");
  batch_.add("x");
  options_.timeout = 4;
  options_.on_error = "zero";
  const RewardSum reward = make_reward(options_);
  EXPECT_EQ(reward.score(batch_.samples()).failures.size(), 1u);
  EXPECT_EQ(count_ended_daemons(), 2u);  // one per attempt
}

TEST_F(Daemons, EndWithAWorkerThatCrashed) {
  python(std::string(kDaemon) + "def reward(completions, **k):\n    leave_a_daemon()\n    os.abort()\n");
  batch_.add("x");
  options_.on_error = "skip";
  const RewardResult result = score(batch_, options_);
  ASSERT_EQ(result.failures.size(), 1u);
  expect_part(result.failures[0], "signal 6");
  EXPECT_EQ(count_ended_daemons(), 2u);
}

TEST_F(Daemons, EndIfTheProgramKillsItsSupervisor) {
  const std::string kill_supervisor = "    leave_a_daemon()\n    os.kill(os.getppid(), 9)\n";
  batch_.add("x");
  options_.on_error = "skip";
  // The program dies with its supervisor.
  python(std::string(kDaemon) + "def reward(completions, **k):\n" + kill_supervisor + "    time.sleep(1000)\n");
  RewardResult result = score(batch_, options_);
  ASSERT_EQ(result.failures.size(), 1u);
  expect_part(result.failures[0], "signal 9");
  EXPECT_EQ(count_ended_daemons(), 2u);
  // The program survives its supervisor and continues.
  python(std::string(kDaemon) + "import ctypes\ndef reward(completions, **k):\n    ctypes.CDLL(None).prctl(1, 0)\n" +
         kill_supervisor + "    time.sleep(1000)\n");
  result = score(batch_, options_);
  EXPECT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(count_ended_daemons(), 4u);
}

TEST_F(Daemons, EndEvenIfTheyKeepForking) {
  python(std::string(kDaemon) +
         "def breed():\n"
         "    if os.fork() == 0:\n"
         "        os.setsid()\n"
         "        while True:\n"
         "            daemon = os.fork()\n"
         "            if daemon > 0:\n"
         "                with open(os.path.join(os.path.dirname(__file__), 'daemons'), 'a') as note: "
         "note.write(f'{daemon}\\n')\n"
         "                os._exit(0)\n"
         "            time.sleep(0.001)\n"
         "def reward(completions, **k):\n    breed()\n"
         "    note = os.path.join(os.path.dirname(__file__), 'daemons')\n"
         "    while not os.path.exists(note) or os.path.getsize(note) < 40: time.sleep(0.001)\n"
         "    os.kill(os.getppid(), 9)\n    time.sleep(1000)\n");
  batch_.add("x");
  options_.on_error = "skip";
  score(batch_, options_);
  EXPECT_GT(count_ended_daemons(), 3u);
}

TEST_F(UserReward, WorkersServeManyThreadsUpToTheirLimit) {
  python(
      "import os, time\n"
      "def reward(completions, **k):\n"
      "    open(os.path.join(os.path.dirname(__file__), 'seen-' + str(os.getpid())), 'w').close()\n"
      "    time.sleep(0.01)\n"
      "    return [float(c) for c in completions]\n");
  options_.workers = 3;
  const RewardSum reward = make_reward(options_);
  std::vector<double> totals(60);
  parallel_for(totals.size(), 8, [&](size_t i) {
    SampleBatch one;
    one.add(std::to_string(i));
    totals[i] = reward.score(one.samples()).totals[0].value();
  });
  for (size_t i = 0; i < totals.size(); ++i) EXPECT_EQ(totals[i], static_cast<double>(i));
  size_t workers = 0;
  for (const std::string& name : list_directory(folder_)) workers += name.starts_with("seen-") ? 1 : 0;
  EXPECT_GE(workers, 2u);
  EXPECT_LE(workers, 3u);
}

TEST_F(UserReward, LongTextsAndInvalidBytesArrive) {
  python("def reward(completions, **k): return [len(c) for c in completions]\n");
  batch_.add(std::string(3'000'000, 'x')).add("\xff\xfe").add("\xe2\x82\xac\n\"\\");
  EXPECT_EQ(score(batch_, options_).totals, (Rewards{3'000'000, 2, 4}));
}

TEST_F(UserReward, ReplacesAWorkerThatExitedWhileIdle) {
  python(
      "import os, signal, threading, time\n"
      "def reward(completions, **k):\n"
      "    with open(os.path.join(os.path.dirname(__file__), 'pid'), 'w') as note: note.write(str(os.getpid()))\n"
      "    threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0))).start()\n"
      "    return [1.0] * len(completions)\n");
  const RewardSum reward = make_reward(options_);
  batch_.add("x");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(reward.score(batch_.samples()).totals, (Rewards{1}));
    pid_t worker = 0;
    ASSERT_TRUE(std::ifstream(folder_ + "/pid") >> worker);
    wait_for_end(worker);
  }
}

}  // namespace
}  // namespace keel
