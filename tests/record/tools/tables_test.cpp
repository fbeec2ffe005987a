#include <gtest/gtest.h>

#include "keel/record/tools/csv.h"

namespace keel {
namespace {

TEST(ShortestExact, IsTheShortestTextThatParsesBack) {
  EXPECT_EQ(shortest_exact(0.1), "0.1");
  EXPECT_EQ(shortest_exact(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shortest_exact(100000), "100000");
  EXPECT_EQ(shortest_exact(-7), "-7");
  EXPECT_EQ(shortest_exact(1e300), "1e+300");
  EXPECT_EQ(shortest_exact(5e-324), "5e-324");
}

TEST(CsvTable, HasARowPerStepAndQuotesFields) {
  ExportedRun run;
  run.steps = {{.phase = "eval", .step = 0, .time = 1, .values = {{"eval/a,b/\"avg\"@1", 0.5}}},
               {.phase = "rl", .step = 1, .time = 2, .values = {{"loss", -0.25}}}};
  EXPECT_EQ(csv_table(run),
            "step,phase,\"eval/a,b/\"\"avg\"\"@1\",loss\r\n"
            "0,eval,0.5,\r\n"
            "1,rl,,-0.25\r\n");
}

}  // namespace
}  // namespace keel
