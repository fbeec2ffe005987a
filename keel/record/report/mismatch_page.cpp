#include <algorithm>

#include "keel/core/console.h"
#include "keel/record/charts/histogram_chart.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

std::string source_text(const RunData& run) {
  if (run.recorded.mismatch.source == RecordedMismatch::Source::kRecomputed)
    return "|p − μ| of the recorded tokens; p is the trainer’s recomputation at the sampling weights.";
  const std::string staleness = staleness_text(run);
  return "|π − μ| of the recorded tokens of each step’s first update, before π changes" +
         (staleness.empty() ? "." : "; the sampler is " + staleness + ".");
}

std::string mismatch_histogram(const RunData& run, size_t index) {
  const RecordedMismatch& mismatch = run.recorded.mismatch;
  HistogramChart histogram{"mismatch-" + std::to_string(index), "Mismatch of recorded tokens", source_text(run),
                           LogHistogram::lower_edge(0), LogHistogram::lower_edge(1) / LogHistogram::lower_edge(0)};
  histogram.background.assign(mismatch.differences.kept.begin(), mismatch.differences.kept.end());
  const auto count = static_cast<double>(mismatch.differences.count);
  std::string caption = source_text(run) + " " + plural(mismatch.differences.count, "token") + ": mean " +
                        format_number(mismatch.differences.sum / count) + ", largest " +
                        format_number(mismatch.differences.largest) + ".";
  if (mismatch.differences.zero > 0)
    caption += " " + format_percent(static_cast<double>(mismatch.differences.zero) / count) +
               " are bit-identical and not shown.";
  return "<figure class=\"card\"><figcaption><h3>Mismatch of recorded tokens</h3><p>" + caption + "</p></figcaption>" +
         svg_histogram(histogram) + "</figure>";
}

std::string largest_table(const RecordedMismatch& mismatch) {
  std::string rows;
  for (const RecordedMismatch::Token& token : mismatch.largest)
    rows +=
        body_row("<code>" + format_token(token.text) + "</code>",
                 {format_count(token.step), format_count(token.rollout), format_count(token.position),
                  format_number(token.mu, 4), format_number(token.p, 4), format_number(std::abs(token.p - token.mu))});
  return "<div class=\"scroll\"><table>" +
         header_row({"Largest", "Step", "Completion", "Position", "Sampler’s μ", "Trainer’s", "|difference|"}) +
         "<tbody>" + rows + "</tbody></table></div>";
}

/// The mismatch in the token records, together with the curves of a single run.
std::string recorded_mismatch(const RunData& run, size_t index, const std::string& curves) {
  const RecordedMismatch& mismatch = run.recorded.mismatch;
  const bool known = mismatch.differences.count > 0;
  const std::string figures = curves + (known ? mismatch_histogram(run, index) : "");
  std::string out = figures.empty() ? "" : "<div class=\"charts\">" + figures + "</div>";
  if (known) return notes_on_records(run) + out + (mismatch.differences.largest > 0 ? largest_table(mismatch) : "");
  if (run.recorded.tokens == 0) return out + notes_on_records(run);
  return out + notes_on_records(run) +
         "<p class=\"note missing\">The records have neither tokens of a step’s first update nor recomputed "
         "probabilities, so the mismatch at equal weights is unknown.</p>";
}

}  // namespace

std::string mismatch_page(const std::vector<RunData>& runs) {
  const std::string curves = mismatch_charts(runs);
  return "<h2>Mismatch of sampler and trainer</h2><p class=\"note\">The difference between the "
         "trainer’s and the sampler’s probability of a token at the same weights. docs/mismatch.md explains its "
         "causes.</p>" +
         notes_on_curves(runs, "rl") +
         (runs.size() == 1 || curves.empty() ? "" : "<div class=\"charts\">" + curves + "</div>") +
         render_each_run(runs, [&](const RunData& run, size_t index) {
           return recorded_mismatch(run, index, runs.size() == 1 ? curves : "");
         });
}

}  // namespace keel
