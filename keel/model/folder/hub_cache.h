#pragma once

#include <filesystem>
#include <string>

namespace keel {

/// The folder into which huggingface_hub downloads: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that is set; `~` and `$NAME` are replaced.
std::filesystem::path hub_cache();

/// What the cache has of `owner/name`, whole or not; empty: nothing.
std::filesystem::path cached_snapshot(const std::string& name);

/// How to get the rest of a folder in the cache that lacks a file; empty for folders elsewhere.
std::string download_hint(const std::filesystem::path& folder);

}  // namespace keel
