#include "keel/train/start/prompt_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/data_support.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(PromptSources, RejectAModelWithoutTheVocabularyOfTheTask) {
  const Config config = tiny_run("dppo_tv");
  LoadedModel policy = starting_with(config, warm_model());
  EXPECT_NO_THROW(PromptSources(config, policy));
  TaskOptions larger = config.task;
  larger.modulus = 7, larger.words = 24;
  policy.tokenizer = make_task(larger)->tokenizer();
  EXPECT_NO_THROW(PromptSources(config, policy));
  // The first encodes any text bytewise; the second fails on <bos>.
  for (const Tokenizer& other : {byte_tokenizer(), make_task({.name = "countdown"})->tokenizer()}) {
    policy.tokenizer = other;
    EXPECT_THAT(error_of(2, [&] { PromptSources(config, policy); }),
                AllOf(HasSubstr("the task chains"), HasSubstr("\"<bos> "), HasSubstr("set data.files")));
  }
}

}  // namespace
}  // namespace keel
