#include "keel/core/embed.h"
#include "keel/record/report/report_parts.h"

// The build sets KEEL_PAGE_FOLDER.
KEEL_EMBED(keel_page_style, KEEL_PAGE_FOLDER "/report.css");
KEEL_EMBED(keel_page_charts, KEEL_PAGE_FOLDER "/charts.js");
KEEL_EMBED(keel_page_pages, KEEL_PAGE_FOLDER "/pages.js");
KEEL_EMBED(keel_page_records, KEEL_PAGE_FOLDER "/records.js");
KEEL_EMBED(keel_page_plane, KEEL_PAGE_FOLDER "/plane.js");
KEEL_EMBED(keel_page_reader, KEEL_PAGE_FOLDER "/reader.js");

namespace keel {

std::string report_style() { return {keel_page_style_begin, keel_page_style_end}; }

std::string report_script() {
  return "(function(){'use strict';\n" + std::string(keel_page_charts_begin, keel_page_charts_end) +
         std::string(keel_page_records_begin, keel_page_records_end) +
         std::string(keel_page_plane_begin, keel_page_plane_end) +
         std::string(keel_page_reader_begin, keel_page_reader_end) +
         std::string(keel_page_pages_begin, keel_page_pages_end) + "})();\n";
}

}  // namespace keel
