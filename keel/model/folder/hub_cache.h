#pragma once

#include <filesystem>
#include <string>

namespace keel {

/// The folder into which huggingface_hub downloads: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that is set; `~` and `$NAME` are replaced.
std::filesystem::path hub_cache();

/// The cached snapshot of `owner/name`, complete or not; empty if there is none.
std::filesystem::path cached_snapshot(const std::string& name);

/// How to complete the download of a folder in the cache; empty for other folders.
std::string download_hint(const std::filesystem::path& folder);

}  // namespace keel
