#include "keel/record/report/embedded_tokens.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "keel/core/base64.h"
#include "keel/record/report/region_boundary.h"

namespace keel {
namespace {

static_assert(std::endian::native == std::endian::little, "the page's script reads little-endian numbers");

template <class Value>
std::string packed(const std::vector<Value>& values) {
  return base64(std::as_bytes(std::span(values)));
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

/// Returns one value per completion if the column is constant within completions, else an empty vector.
std::vector<float> one_per_completion(const RecordedRows& rows, const std::vector<float>& values) {
  std::vector<float> firsts;
  for (const RecordedCompletion& completion : rows.completions) {
    const float first = completion.rows > 0 ? values[completion.first] : 0;
    for (size_t i = 0; i < completion.rows; ++i)
      if (!same_bits(values[completion.first + i], first)) return {};
    firsts.push_back(first);
  }
  return firsts;
}

Json columns_json(const RecordedRows& rows) {
  Json columns = Json::object();
  for (const RecordedRows::Column& column : rows.columns) {
    const std::vector<float> per_completion = one_per_completion(rows, column.values);
    columns[column.name] = {{"each", per_completion.empty() ? "token" : "completion"},
                            {"data", packed(per_completion.empty() ? column.values : per_completion)}};
  }
  return columns;
}

Json completions_json(const RecordedRows& rows) {
  Json step = Json::array(), update = Json::array(), prompt = Json::array(), rollout = Json::array(),
       reward = Json::array(), shown = Json::array(), tokens = Json::array(), prompt_text = Json::array();
  for (const RecordedCompletion& completion : rows.completions) {
    step.push_back(completion.step);
    update.push_back(completion.update);
    prompt.push_back(completion.prompt);
    rollout.push_back(completion.rollout);
    reward.push_back(std::isfinite(completion.reward) ? Json(completion.reward) : Json());
    shown.push_back(completion.rows);
    tokens.push_back(completion.tokens);
    prompt_text.push_back(completion.prompt_index);
  }
  return {{"step", step},     {"update", update}, {"prompt", prompt}, {"rollout", rollout},
          {"reward", reward}, {"rows", shown},    {"tokens", tokens}, {"prompt_text", prompt_text}};
}

Json points_json(const BoundaryCurve& curve) {
  Json points = Json::array();
  for (const ChartPoint& point : curve.points)
    for (const double value : {point.x, point.y}) points.push_back(std::stod(format_number(value, 5)));
  return points;
}

/// Adds the distinct regions of the recorded steps and each step's region, since thresholds may change. If they change
/// at many steps, some steps have none (-1) to limit the size of the page.
void add_regions(const RecordedTokens& tokens, Json& out) {
  constexpr size_t kMaxRegions = 50;
  const size_t stride = tokens.steps.size() / kMaxRegions + 1;
  Json regions = Json::array(), region_of_step = Json::object();
  std::vector<std::pair<std::string, Json>> known;
  for (size_t i = 0; i < tokens.steps.size(); ++i) {
    const RecordedStep& step = tokens.steps[i];
    size_t index = 0;
    while (index < known.size() && (known[index].first != step.method || known[index].second != step.parameters))
      ++index;
    if (index == known.size() && i % stride != 0 && i + 1 != tokens.steps.size()) {
      region_of_step[std::to_string(step.step)] = -1;
      continue;
    }
    if (index == known.size()) {
      known.emplace_back(step.method, step.parameters);
      const RegionBoundary boundary = region_boundary(step.method, step.parameters);
      Json curves = Json::array();
      for (const BoundaryCurve& curve : boundary.curves)
        curves.push_back({{"positive", curve.positive}, {"above", curve.masks_above}, {"points", points_json(curve)}});
      regions.push_back({{"caption", boundary.caption}, {"curves", curves}});
    }
    region_of_step[std::to_string(step.step)] = index;
  }
  out["regions"] = regions;
  out["region_of_step"] = region_of_step;
}

/// Serialises JSON for a <script> element.
std::string escape_for_script(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string embedded_tokens(const RecordedTokens& tokens) {
  const RecordedRows& rows = tokens.rows;
  Json out = Json::object();
  out["format"] = 1;
  out["completions"] = completions_json(rows);
  out["columns"] = columns_json(rows);
  const bool small = rows.texts.size() <= std::numeric_limits<uint16_t>::max();
  out["text"] = {
      {"bits", small ? 16 : 32},
      {"data", small ? packed(std::vector<uint16_t>(rows.text.begin(), rows.text.end())) : packed(rows.text)}};
  std::vector<uint8_t> flags;
  for (size_t i = 0; i < rows.kept.size(); ++i) flags.push_back((rows.kept[i] ? 1 : 0) | (rows.outside[i] ? 2 : 0));
  out["flags"] = packed(flags);
  out["texts"] = rows.texts;
  out["prompts"] = rows.prompts;
  add_regions(tokens, out);
  return escape_for_script(out);
}

}  // namespace keel
