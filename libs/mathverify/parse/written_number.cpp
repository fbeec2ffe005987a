#include "libs/mathverify/parse/written_number.h"

#include <algorithm>
#include <array>

#include "libs/mathverify/parse/characters.h"

namespace keel::math {
namespace {

constexpr size_t kMaxDigits = 4000;
constexpr int64_t kMaxExponent = 4000;

bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

/// Reads digits, point, repeating part and exponent from left to right.
class DecimalReader {
 public:
  DecimalReader(std::string_view text, bool comma_may_group) : text_(text), comma_may_group_(comma_may_group) {}

  WrittenNumber run() {
    take_digits(whole_);
    const bool grouped = take_groups();
    const bool has_point = grouped_by_points_ ? take_decimal_comma() : take_point();
    const int64_t exponent = take_exponent();
    const bool plain = !grouped && !has_point && !has_exponent_;
    return {.length = at_, .digits = whole_, .value = value(exponent), .is_plain = plain};
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  void take_digits(std::string& to) {
    while (is_digit(peek())) to += text_[at_++];
  }

  bool three_digits(size_t ahead) const {
    return is_digit(peek(ahead)) && is_digit(peek(ahead + 1)) && is_digit(peek(ahead + 2)) &&
           !is_digit(peek(ahead + 3));
  }

  /// The thousands separator; empty if there is none. A point counts only if it occurs twice.
  std::string_view separator() const {
    static constexpr std::string_view kSeparators[] = {"{,}", ",\\! ", ",\\!", "\\,", "\\ ", "\\;",
                                                       "\\:", ",",     " ",    "~",   "'",   "_"};
    for (const std::string_view each : kSeparators)
      if (starts_with(each) && three_digits(each.size())) return each == "," && !comma_may_group_ ? "" : each;
    return peek() == '.' && three_digits(1) && peek(4) == '.' && three_digits(5) ? "." : "";
  }

  bool take_groups() {
    if (whole_.empty() || whole_.size() > 3 || whole_[0] == '0') return false;
    const std::string_view group_separator = separator();
    if (group_separator.empty()) return false;
    grouped_by_points_ = group_separator == ".";
    while (starts_with(group_separator) && three_digits(group_separator.size())) {
      at_ += group_separator.size();
      take_digits(whole_);
    }
    return true;
  }

  /// Reads the decimal comma of 1.234.567,89.
  bool take_decimal_comma() {
    if (peek() != ',' || !is_digit(peek(1))) return false;
    ++at_;
    take_digits(decimals_);
    return true;
  }

  bool take_point() {
    if (peek() != '.') return false;
    const size_t before = at_++;
    take_digits(decimals_);
    take_repeating_part();
    if (decimals_.empty() && repeating_.empty()) at_ = before;
    return at_ != before;
  }

  /// Reads the digits after \overline, \bar or \dot; braces are optional for one digit.
  bool take_overlined(std::string_view command) {
    if (!starts_with(command)) return false;
    const std::string_view rest = text_.substr(at_ + command.size());
    const size_t close = rest.find('}');
    const bool braced =
        rest.starts_with("{") && close != std::string_view::npos && all_digits(rest.substr(1, close - 1));
    if (!braced && (rest.empty() || !is_digit(rest[0]))) return false;
    repeating_ += braced ? rest.substr(1, close - 1) : rest.substr(0, 1);
    at_ += command.size() + (braced ? close + 1 : 1);
    return true;
  }

  /// Reads the 3 of 0.1\overline{3} and 0.1(3), or the 142 of 0.\dot{1}4\dot{2}.
  void take_repeating_part() {
    if (take_overlined("\\overline") || take_overlined("\\bar")) return;
    if (take_overlined("\\dot")) {
      const size_t before = at_;
      const std::string first = repeating_;
      take_digits(repeating_);
      if (take_overlined("\\dot")) return;
      at_ = before;
      repeating_ = first;
      return;
    }
    const size_t close = peek() == '(' ? text_.find(')', at_) : std::string_view::npos;
    if (close == std::string_view::npos || !all_digits(text_.substr(at_ + 1, close - at_ - 1))) return;
    const char next = close + 1 < text_.size() ? text_[close + 1] : '\0';
    const bool is_end = std::string_view("\0,;)%}", 6).find(next) != std::string_view::npos;
    if (!is_end) return;  // 0.5(6)x is a product
    repeating_ = text_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
  }

  int64_t take_exponent() {
    if (peek() != 'e' && peek() != 'E') return 0;
    const bool is_signed = peek(1) == '-' || peek(1) == '+';
    if (!is_digit(peek(is_signed ? 2 : 1))) return 0;
    const bool negative = peek(1) == '-';
    at_ += is_signed ? 2 : 1;
    std::string power;
    take_digits(power);
    if (power.size() > 5) throw Undecided{};
    has_exponent_ = true;
    return std::stoll(power) * (negative ? -1 : 1);
  }

  Rational value(int64_t exponent) const {
    if (whole_.size() + decimals_.size() + repeating_.size() > kMaxDigits || std::abs(exponent) > kMaxExponent)
      throw Undecided{};
    const Rational ten(10), shift = ten.power(static_cast<int64_t>(decimals_.size()));
    Rational result = Rational(Integer::from_digits(whole_ + decimals_)) / shift;
    if (!repeating_.empty()) {
      const Rational nines = ten.power(static_cast<int64_t>(repeating_.size())) - Rational(1);
      result = result + Rational(Integer::from_digits(repeating_)) / (nines * shift);
    }
    return exponent == 0 ? result : result * ten.power(exponent);
  }

  std::string_view text_;
  bool comma_may_group_, grouped_by_points_ = false, has_exponent_ = false;
  size_t at_ = 0;
  std::string whole_{}, decimals_{}, repeating_{};
};

uint32_t digit_value(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  return static_cast<uint32_t>((c | 0x20) - 'a' + 10);
}

bool is_hexadecimal(char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

/// The base in _2, _{16}, _{eight} or _{\text{eight}} and its length in bytes; 0 if there is none.
std::pair<uint32_t, size_t> read_base(std::string_view text) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "",     "",    "two",    "three",  "four",     "five",     "six",     "seven",  "eight",
      "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"};
  if (!text.starts_with("_")) return {0, 0};
  std::string_view name = text.substr(1);
  size_t length = 1;
  if (name.starts_with("{")) {
    const size_t close = name.find('}');
    if (close == std::string_view::npos) return {0, 0};
    length += close + 1;
    name = name.substr(1, close - 1);
    if (name.starts_with("\\text{")) {
      name.remove_prefix(6);
      if (length >= text.size() || text[length] != '}') return {0, 0};
      ++length;
    }
  } else {
    size_t digits = 0;
    while (digits < name.size() && is_digit(name[digits])) ++digits;
    name = name.substr(0, digits);
    length += digits;
  }
  uint32_t base = 0;
  if (name.size() <= 2 && all_digits(name)) base = static_cast<uint32_t>(std::stoul(std::string(name)));
  for (uint32_t i = 2; i < kNames.size(); ++i)
    if (name == kNames[i]) base = i;
  return base < 2 || base > 36 ? std::pair<uint32_t, size_t>{0, 0} : std::pair{base, length};
}

WrittenNumber based(std::string_view digits, uint32_t base, size_t length) {
  Integer value(0);
  for (const char c : digits) {
    if (digit_value(c) >= base) throw Undecided{};
    value = value * Integer(base) + Integer(digit_value(c));
  }
  return {.length = length, .digits = std::string(digits), .value = Rational(value), .is_based = true};
}

}  // namespace

WrittenNumber read_decimal(std::string_view text, bool comma_may_group) {
  return DecimalReader(text, comma_may_group).run();
}

WrittenNumber read_based(std::string_view text) {
  constexpr size_t kMaxBasedDigits = 200;
  const auto hex_digits_from = [&](size_t from) {
    size_t end = from;
    while (end < text.size() && end < from + kMaxBasedDigits && is_hexadecimal(text[end])) ++end;
    return text.substr(from, end - from);
  };
  if (text.starts_with("0x") || text.starts_with("0b")) {  // programming notation
    const uint32_t base = text[1] == 'x' ? 16 : 2;
    const std::string_view digits = hex_digits_from(2);
    if (!digits.empty() && (base == 16 || digits.find_first_not_of("01") == std::string_view::npos))
      return based(digits, base, digits.size() + 2);
  }
  const std::string_view digits = hex_digits_from(0);
  const auto [base, suffix_length] =
      digits.empty() ? std::pair<uint32_t, size_t>{0, 0} : read_base(text.substr(digits.size()));
  if (base == 0) return {};
  const auto is_lower = [](char c) { return c >= 'a'; };
  const bool has_digit = std::any_of(digits.begin(), digits.end(), is_digit);
  const bool has_lower = std::any_of(digits.begin(), digits.end(), is_lower);
  const bool is_hex = base == 16 && digits.size() > 1 && (has_digit || !has_lower);
  if (!is_hex && (!has_digit || has_lower)) return {};  // F_{16} and 2a_3 are variables
  return based(digits, base, digits.size() + suffix_length);
}

}  // namespace keel::math
