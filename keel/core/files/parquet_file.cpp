#ifdef KEEL_HAS_ARROW
#include "keel/core/files/parquet_file.h"

#include <arrow/io/file.h>

#include "keel/core/console.h"
#include "keel/core/files/directory_path.h"

namespace keel {

arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_parquet(const std::filesystem::path& path,
                                                                        arrow::MemoryPool& memory,
                                                                        int64_t rows_at_once) {
  parquet::ReaderProperties properties(&memory);
  properties.enable_buffered_stream();  // reads pages on demand, not whole column chunks
  properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_batch_size(rows_at_once);
  arrow_properties.set_pre_buffer(false);
  parquet::arrow::FileReaderBuilder builder;
  ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path_for_libraries(path)));
  ARROW_RETURN_NOT_OK(builder.Open(file, properties));
  return builder.memory_pool(&memory)->properties(arrow_properties)->Build();
}

std::string arrow_message(const std::string& message) {
  const std::string line = shorten(message.substr(0, message.find('\n')), 300);
  return line.empty() ? "the library gives no reason" : line;
}

}  // namespace keel
#endif
