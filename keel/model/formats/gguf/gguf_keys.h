#pragma once

// Keys that are both read and written. The specification is
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.

#include <cstdint>

namespace keel::gguf {

// Prefix: the name of the architecture and a dot.
inline constexpr const char *kBlockCount = "block_count", *kContextLength = "context_length",
                            *kEmbeddingLength = "embedding_length", *kFeedForwardLength = "feed_forward_length",
                            *kHeadCount = "attention.head_count", *kHeadCountKv = "attention.head_count_kv",
                            *kKeyLength = "attention.key_length", *kValueLength = "attention.value_length",
                            *kNormEpsilon = "attention.layer_norm_rms_epsilon",
                            *kSlidingWindow = "attention.sliding_window",
                            *kSlidingPattern = "attention.sliding_window_pattern",
                            *kAttentionCap = "attn_logit_softcapping", *kLogitCap = "final_logit_softcapping";

// Prefix: the name of the architecture and ".rope.".
inline constexpr const char *kRopeBase = "freq_base", *kRopeBaseSliding = "freq_base_swa",
                            *kRopeDimensions = "dimension_count", *kRopeType = "scaling.type",
                            *kRopeFactor = "scaling.factor", *kRopeOriginal = "scaling.original_context_length",
                            *kRopeStrength = "scaling.attn_factor", *kYarnBetaFast = "scaling.yarn_beta_fast",
                            *kYarnBetaSlow = "scaling.yarn_beta_slow";
/// The tensor of Llama 3 RoPE scaling: the divisor of each frequency.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";

// General keys.
inline constexpr const char *kArchitecture = "general.architecture", *kName = "general.name";

// Tokenizer keys.
inline constexpr const char *kTokenizerModel = "tokenizer.ggml.model", *kTokenizerPre = "tokenizer.ggml.pre",
                            *kTokens = "tokenizer.ggml.tokens", *kTokenTypes = "tokenizer.ggml.token_type",
                            *kScores = "tokenizer.ggml.scores", *kMerges = "tokenizer.ggml.merges",
                            *kBos = "tokenizer.ggml.bos_token_id", *kEos = "tokenizer.ggml.eos_token_id",
                            *kEndOfTurn = "tokenizer.ggml.eot_token_id", *kEndOfMessage = "tokenizer.ggml.eom_token_id",
                            *kUnknown = "tokenizer.ggml.unknown_token_id", *kPad = "tokenizer.ggml.padding_token_id",
                            *kAddBos = "tokenizer.ggml.add_bos_token", *kAddEos = "tokenizer.ggml.add_eos_token",
                            *kSpacePrefix = "tokenizer.ggml.add_space_prefix",
                            *kChatTemplate = "tokenizer.chat_template";

/// The types of metadata values.
enum ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kText = 8,
  kList = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// The values of tokenizer.ggml.token_type.
enum TokenType : int { kNormalToken = 1, kUnknownToken, kControlToken, kUserDefinedToken, kUnusedToken, kByteToken };

}  // namespace keel::gguf
