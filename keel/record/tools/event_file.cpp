#include "keel/record/tools/event_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "keel/core/files/hash.h"
#include "keel/core/strings.h"
#include "keel/record/tools/protobuf.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventsBegin = "events.out.tfevents.", kEventsEnd = ".keel";

// Field numbers and values of tensorboard/compat/proto: event, summary, tensor.
namespace event_field {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}  // namespace event_field
namespace session_field {
constexpr int kStatus = 1, kStart = 1;
}  // namespace session_field
namespace summary_field {
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9, kPluginData = 1,
              kPluginName = 1;
}  // namespace summary_field
namespace histogram_field {
constexpr int kMin = 1, kMax = 2, kCount = 3, kSum = 4, kSumOfSquares = 5, kLimits = 6, kCounts = 7;
}  // namespace histogram_field
namespace tensor_field {
constexpr int kDtype = 1, kShape = 2, kStrings = 8, kDimension = 2, kSize = 1, kDtypeString = 7;
}  // namespace tensor_field

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

ProtobufMessage event(double time, int64_t step) {
  ProtobufMessage message;
  message.add_double(event_field::kWallTime, time).add_int(event_field::kStep, step);
  return message;
}

/// A value for TensorBoard's text tab. Indentation makes it a verbatim Markdown block.
ProtobufMessage text_value(const std::string& tag, std::string_view text) {
  std::string indented = "    ";
  for (const char c : trimmed(text)) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  ProtobufMessage shape, tensor, metadata, value;
  shape.add_message(tensor_field::kDimension, ProtobufMessage().add_int(tensor_field::kSize, 1));
  tensor.add_int(tensor_field::kDtype, tensor_field::kDtypeString)
      .add_message(tensor_field::kShape, shape)
      .add_string(tensor_field::kStrings, indented);
  metadata.add_message(summary_field::kPluginData, ProtobufMessage().add_string(summary_field::kPluginName, "text"));
  value.add_string(summary_field::kTag, tag + "/text_summary")
      .add_message(summary_field::kMetadata, metadata)
      .add_message(summary_field::kTensor, tensor);
  return value;
}

/// A summary of one text.
ProtobufMessage text_summary(const std::string& tag, std::string_view text) {
  return ProtobufMessage().add_message(summary_field::kValue, text_value(tag, text));
}

ProtobufMessage histogram_value(const std::string& tag, const Histogram& histogram) {
  ProtobufMessage message, value;
  message.add_double(histogram_field::kMin, histogram.smallest)
      .add_double(histogram_field::kMax, histogram.largest)
      .add_double(histogram_field::kCount, static_cast<double>(histogram.count))
      .add_double(histogram_field::kSum, histogram.sum)
      .add_double(histogram_field::kSumOfSquares, histogram.sum_of_squares);
  for (const double limit : histogram.limits) message.add_double(histogram_field::kLimits, limit);
  for (const int64_t count : histogram.counts) message.add_double(histogram_field::kCounts, static_cast<double>(count));
  return value.add_string(summary_field::kTag, tag).add_message(summary_field::kHistogram, message);
}

bool is_alphanumeric(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

/// Returns TIME.RUN or TIME of a file name, if it is valid.
std::optional<std::string_view> parse_name(std::string_view name) {
  constexpr size_t kMaxDigits = 18;  // fit into 64 bits
  if (!name.starts_with(kEventsBegin) || !name.ends_with(kEventsEnd)) return std::nullopt;
  if (name.size() <= kEventsBegin.size() + kEventsEnd.size()) return std::nullopt;
  name.remove_prefix(kEventsBegin.size());
  name.remove_suffix(kEventsEnd.size());
  const std::string_view time = name.substr(0, name.find('.'));
  const bool has_run = time.size() < name.size();
  const bool is_valid = !time.empty() && time.size() <= kMaxDigits && std::all_of(time.begin(), time.end(), is_digit) &&
                        (!has_run || is_alphanumeric(name.substr(time.size() + 1)));
  return is_valid ? std::optional(name) : std::nullopt;
}

/// Returns TIME of a valid file name.
int64_t parse_time(std::string_view name) {
  int64_t time = 0;
  std::from_chars(name.data() + kEventsBegin.size(), name.data() + name.size(), time);
  return time;
}

}  // namespace

std::string tfrecord(std::string_view record) {
  std::string bytes;
  bytes.reserve(record.size() + 16);
  add_little_endian(bytes, record.size(), 8);
  add_little_endian(bytes, masked_crc32c(bytes), 4);
  bytes += record;
  add_little_endian(bytes, masked_crc32c(record), 4);
  return bytes;
}

bool EventFile::is_own(std::string_view name, const std::string& run) {
  const std::optional<std::string_view> time_and_run = parse_name(name);
  return time_and_run && (time_and_run->find('.') == std::string_view::npos ||
                          time_and_run->substr(time_and_run->find('.') + 1) == run);
}

EventFile EventFile::begin(const fs::path& folder, std::string_view config, const std::string& run) {
  create_directories(folder);
  const double now = seconds_since_1970();
  auto time = static_cast<int64_t>(now);
  for (const std::string& name : list_directory(folder))
    if (parse_name(name)) time = std::max(time, parse_time(name) + 1);
  const fs::path path = folder / (std::string(kEventsBegin) + std::to_string(time) +
                                  (is_alphanumeric(run) ? "." + run : "") + std::string(kEventsEnd));
  EventFile file(path, run, AppendFile::open(path));
  std::string header = tfrecord(ProtobufMessage()
                                    .add_double(event_field::kWallTime, now)
                                    .add_string(event_field::kFileVersion, "brain.Event:2")
                                    .bytes());
  const ProtobufMessage start = ProtobufMessage().add_int(session_field::kStatus, session_field::kStart);
  header += tfrecord(event(now, 0).add_message(event_field::kSessionLog, start).bytes());
  if (!config.empty())
    header += tfrecord(event(now, 0).add_message(event_field::kSummary, text_summary("config", config)).bytes());
  file.file_.append(header);
  return file;
}

void EventFile::add(const ExportedStep& step) {
  if (step.step != last_step_) names_of_last_step_.clear();
  last_step_ = step.step;
  last_time_ = step.time;
  ProtobufMessage summary;
  for (const auto& [name, value] : step.values) {
    if (name == kClockMetric || !names_of_last_step_.insert(name).second) continue;
    ProtobufMessage scalar;
    scalar.add_string(summary_field::kTag, name).add_float(summary_field::kSimpleValue, static_cast<float>(value));
    summary.add_message(summary_field::kValue, scalar);
  }
  for (const auto& [name, histogram] : step.histograms)
    if (names_of_last_step_.insert(name).second)
      summary.add_message(summary_field::kValue, histogram_value(name, histogram));
  for (const auto& [name, text] : step.texts)
    if (names_of_last_step_.insert(name).second) summary.add_message(summary_field::kValue, text_value(name, text));
  file_.append(tfrecord(event(step.time, step.step).add_message(event_field::kSummary, summary).bytes()));
  write_samples();
}

void EventFile::add_sample(const ExportedSample& sample) {
  std::string& text = samples_[{sample.step, sample.phase}];
  text += (text.empty() ? "" : "\n") + sample.text;
}

void EventFile::write_samples() {
  for (const auto& [key, text] : samples_)
    file_.append(tfrecord(event(last_time_, key.first)
                              .add_message(event_field::kSummary, text_summary("samples/" + key.second, text))
                              .bytes()));
  samples_.clear();
}

void EventFile::sync() {
  write_samples();
  file_.sync();
}

void EventFile::replace_older() const {
  const fs::path folder = path_.parent_path();
  std::vector<std::string> older = list_directory(folder);
  std::erase_if(older, [&](const std::string& name) { return !is_own(name, run_) || name == path_.filename(); });
  for (const std::string& name : older) {
    std::error_code ignored;
    // Never truncates the target of a link.
    if (name == older.back() && fs::symlink_status(folder / name, ignored).type() == fs::file_type::regular)
      truncate_file(folder / name, 0);
    else
      remove_tree(folder / name);
  }
}

}  // namespace keel
