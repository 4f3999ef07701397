#include "mdl-inject/memory_list.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/say.h"
#include "mdl-inject/commands.h"
#include "runtime/image/image.h"
#include "runtime/image/variables.h"
#include "runtime/output/figures.h"
#include "runtime/output/rows.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

struct Block {
  image::Range at;
  std::string path;
  const image::Object* object = nullptr;
  uint64_t size() const { return at.end - at.start; }
};

// Each once, by its address; the name is that which a line has (image/address_names.h).
std::vector<Block> blocks_of(const image::Image& image) {
  std::vector<image::NamedVariable> variables = image::variables_of(image);
  std::ranges::stable_sort(variables, {}, [](const image::NamedVariable& one) { return one.at.start; });
  const auto is_same = [](const image::NamedVariable& a, const image::NamedVariable& b) {
    return a.at.start == b.at.start;
  };
  variables.erase(std::unique(variables.begin(), variables.end(), is_same), variables.end());
  std::vector<Block> out;
  for (const image::NamedVariable& one : variables)
    out.push_back({one.at, fmt::format("{}/{}", kMemory, image::demangle(one.name).full), one.object});
  return out;
}

// Bytes that the process can write, and those of them that lie in variables.
struct Extent {
  uint64_t writable = 0, named = 0;
};

Extent extent_of(const image::Image& image, const std::vector<Block>& blocks) {
  Extent out;
  auto block = blocks.begin();
  uint64_t seen = 0;  // up to where bytes are counted: variables may overlap
  for (const image::Mapping& mapping : image.mappings) {
    if (!mapping.write) continue;
    out.writable += mapping.end - mapping.start;
    while (block != blocks.end() && block->at.end <= mapping.start) ++block;
    for (auto one = block; one != blocks.end() && one->at.start < mapping.end; ++one) {
      const uint64_t start = std::max({one->at.start, mapping.start, seen});
      const uint64_t end = std::min(one->at.end, mapping.end);
      if (end <= start) continue;
      out.named += end - start;
      seen = end;
    }
  }
  return out;
}

}  // namespace

int list_memory(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto image = image::read_image(options.pid, image::Depth::code);
  if (!image) return fail(image.error());
  std::vector<Block> blocks = blocks_of(*image);
  const Extent extent = extent_of(*image, blocks);
  const std::string glob = options.glob == kMemory ? "/Memory/*" : options.glob;
  std::erase_if(blocks, [&](const Block& one) { return fnmatch(glob.c_str(), one.path.c_str(), 0) != 0; });
  std::ranges::stable_sort(blocks, std::greater(), &Block::size);
  output::Rows rows(options.format);
  for (const Block& one : blocks)
    if (rows.has_objects())
      say_text(stdout, rows.of({{"path", one.path}, {"object", one.object->name}, {"bytes", one.size()}}));
    else
      say("{:>14} bytes  {}  {}\n", output::grouped(static_cast<int64_t>(one.size())), one.path,
          one.object->name);
  say_text(stdout, rows.end());
  if (blocks.empty())
    say(stderr, "mdl-inject: no variable of process {} matches '{}'\n", options.pid, options.glob);
  say(stderr,
      "{} of the {} bytes that process {} can write are in variables with a name; what lies elsewhere (heap, "
      "stacks, "
      "variables of threads) is called by its address, /Memory/0x7f001234\n",
      output::grouped(static_cast<int64_t>(extent.named)),
      output::grouped(static_cast<int64_t>(extent.writable)), options.pid);
  return blocks.empty() ? 1 : 0;
}

}  // namespace mdl::inject
