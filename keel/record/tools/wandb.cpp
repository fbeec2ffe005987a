#include "keel/record/tools/wandb.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "keel/core/files/json_file.h"
#include "keel/record/tools/protobuf.h"

namespace keel {
namespace {

constexpr size_t kLogBlock = 32768, kPartHeader = 7;
constexpr char kWhole = 1, kFirstPart = 2, kMiddlePart = 3, kLastPart = 4;

// Field numbers of wandb/proto: wandb_internal.
namespace record_field {
constexpr int kNumber = 1, kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21;
}  // namespace record_field
namespace header_field {
constexpr int kVersions = 1, kProducer = 1, kOldestReader = 2;
}  // namespace header_field
namespace run_field {
constexpr int kId = 1, kProject = 3, kConfig = 4, kDisplayName = 8, kStartTime = 17;
constexpr int kSeconds = 1, kNanoseconds = 2;  // of google.protobuf.Timestamp
}  // namespace run_field
namespace item_field {
constexpr int kItem = 1, kKey = 2, kJson = 16;  // alike in configuration, summary and history
constexpr int kStep = 2, kStepNumber = 1;       // of a history
}  // namespace item_field
namespace exit_field {
constexpr int kCode = 1, kRuntime = 2;
}  // namespace exit_field

/// CRC-32 as in zip files (ISO 3309).
uint32_t zip_crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
      table[byte] = value;
    }
    return table;
  }();
  uint32_t value = ~0u;
  for (const char c : bytes) value = value >> 8 ^ kTable[(value ^ static_cast<unsigned char>(c)) & 0xff];
  return ~value;
}

ProtobufMessage item(std::string_view key, const std::string& json) {
  ProtobufMessage message;
  message.text(item_field::kKey, key).text(item_field::kJson, json);
  return message;
}

/// The numbers of a step, with those that W&B itself gives every step.
std::map<std::string, double> wandb_numbers(const ExportedStep& step, double begin) {
  std::map<std::string, double> numbers(step.values.begin(), step.values.end());
  numbers.erase(kClockMetric);
  numbers["_step"] = static_cast<double>(step.step);
  numbers["_timestamp"] = step.time;
  numbers["_runtime"] = std::round((step.time - begin) * 1000) / 1000;
  return numbers;
}

ProtobufMessage run_record(const ExportedRun& run) {
  ProtobufMessage config, start, record;
  for (const auto& [path, value] : run.settings.items())
    config.message(item_field::kItem, item(path, json_line(value)));
  start.integer(run_field::kSeconds, static_cast<int64_t>(run.begin())).integer(run_field::kNanoseconds, 0);
  record.text(run_field::kId, run.id)
      .text(run_field::kProject, "keel")
      .message(run_field::kConfig, config)
      .text(run_field::kDisplayName, run.name)
      .message(run_field::kStartTime, start);
  return record;
}

}  // namespace

WandbLog::WandbLog() : bytes_(":W&B") {
  constexpr uint16_t kMagic = 0xbee1;  // the CRC-32 of "Weights & Biases"
  constexpr char kVersion = 0;
  add_little_endian(bytes_, kMagic, 2);
  bytes_ += kVersion;
}

void WandbLog::add_part(char kind, std::string_view part) {
  std::string checked(1, kind);
  checked += part;
  add_little_endian(bytes_, zip_crc32(checked), 4);
  add_little_endian(bytes_, part.size(), 2);
  bytes_ += checked;
}

void WandbLog::add(std::string_view record) {
  for (bool first = true;; first = false) {
    size_t room = kLogBlock - bytes_.size() % kLogBlock;
    if (room < kPartHeader) {  // too little for a part
      bytes_.append(room, '\0');
      room = kLogBlock;
    }
    const std::string_view part = record.substr(0, room - kPartHeader);
    const bool last = part.size() == record.size();
    add_part(first ? (last ? kWhole : kFirstPart) : (last ? kLastPart : kMiddlePart), part);
    if (last) return;
    record.remove_prefix(part.size());
  }
}

std::string wandb_log(const ExportedRun& run) {
  WandbLog log;
  int64_t number = 0;
  const auto add = [&](int field, const ProtobufMessage& message) {
    log.add(ProtobufMessage().integer(record_field::kNumber, ++number).message(field, message).bytes());
  };
  ProtobufMessage versions;
  versions.text(header_field::kProducer, "keel").text(header_field::kOldestReader, "0.12.0");
  add(record_field::kHeader, ProtobufMessage().message(header_field::kVersions, versions));
  add(record_field::kRun, run_record(run));
  std::map<std::string, double> last;
  for (const ExportedStep& step : run.steps) {
    ProtobufMessage history;
    for (const auto& [name, value] : wandb_numbers(step, run.begin())) {
      history.message(item_field::kItem, item(name, exact_number(value)));
      last[name] = value;
    }
    history.message(item_field::kStep, ProtobufMessage().integer(item_field::kStepNumber, step.step));
    add(record_field::kHistory, history);
  }
  ProtobufMessage summary, exit;
  for (const auto& [name, value] : last) summary.message(item_field::kItem, item(name, exact_number(value)));
  add(record_field::kSummary, summary);
  if (run.standing == RunStanding::kRunning) return log.bytes();
  exit.integer(exit_field::kCode, run.standing == RunStanding::kFinished ? 0 : 1)
      .integer(exit_field::kRuntime, static_cast<int64_t>(run.end() - run.begin()));
  add(record_field::kExit, exit);
  return log.bytes();
}

std::string wandb_folder(const ExportedRun& run) { return "offline-run-" + calendar_time(run.begin()) + "-" + run.id; }

std::string wandb_file(const ExportedRun& run) { return "run-" + run.id + ".wandb"; }

}  // namespace keel
