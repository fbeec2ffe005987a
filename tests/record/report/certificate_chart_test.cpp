#include <gtest/gtest.h>

#include <cstdio>

#include "keel/record/report/report.h"
#include "tests/record/occurrences.h"

namespace keel {
namespace {

RunData run_of_three_steps() {
  RunData run;
  run.name = "run";
  for (int step = 1; step <= 3; ++step) run.metrics.push_back({"rl", step, {{"reward/mean", 0.5}}});
  return run;
}

std::string certificate_chart(const std::vector<RunData>& runs) {
  const std::string html = render_report(runs);
  const size_t begin = html.find("<h3>Certificate of improvement</h3>");
  return begin == std::string::npos ? "" : html.substr(begin, html.find("</figure>", begin) - begin);
}

TEST(Report, DrawsTheCertificateWithTwoStandardErrors) {
  RunData run = run_of_three_steps();
  EXPECT_EQ(certificate_chart({run}), "");
  run.metrics[0].values.insert(
      {{"certificate/bound", -2.0}, {"certificate/gain", 1.5}, {"certificate/standard_error", 0.5}});
  run.metrics[2].values.insert({{"certificate/bound", 1.0}, {"certificate/gain", 2.5}});  // of one prompt: no error
  const std::string one = certificate_chart({run});
  EXPECT_EQ(occurrences(one, "gain before the penalty: from 1.5 to 2.5"), 1u);
  EXPECT_EQ(occurrences(one, "the bound, two standard errors"), 1u);
  EXPECT_EQ(occurrences(one, "<g class=\"mark s"), 1u);

  // The band reaches from -3 to -1 on the axis.
  double left, top, width, height, low, high, x, from, to;
  ASSERT_EQ(sscanf(one.c_str() + one.find("data-box="), "data-box=\"%lf %lf %lf %lf", &left, &top, &width, &height), 4);
  ASSERT_EQ(sscanf(one.c_str() + one.find("data-y="), "data-y=\"%lf %lf", &low, &high), 2);
  const size_t mark = one.find(" d=\"M", one.find("<g class=\"mark s"));
  ASSERT_EQ(sscanf(one.c_str() + mark, " d=\"M%lf %lfV%lf", &x, &from, &to), 3);
  const auto value_at = [&](double y) { return low + (top + height - y) / height * (high - low); };
  EXPECT_NEAR(value_at(from), -3, 0.02);
  EXPECT_NEAR(value_at(to), -1, 0.02);

  const std::string two = certificate_chart({run, run_of_three_steps(), run});
  EXPECT_EQ(occurrences(two, "<g class=\"mark s"), 2u);
  EXPECT_EQ(occurrences(two, "gain before"), 0u);
}

}  // namespace
}  // namespace keel
