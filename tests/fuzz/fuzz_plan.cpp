// Plans from anyone: the reader, the verifier and the binder must refuse or accept, never crash.
//
// A plan's checksum stops nearly every damaged file at the door, so the input says with its first
// byte how far in it wants to start:
//   e  edits of a good plan: offset (2 bytes, little-endian) and new byte, again and again; the
//      checksum is then made right
//   j  the same edits, of the good plan's JSON
//   m  a manifest: the rest is the JSON of a plan whose stencils are good
//   s  a stencil: the rest is its code; bytes f8 00 to f8 04 are holes
//   anything else: the whole input is the file. Files are what mdlc makes when the tests are built; they are
//     changed by what their sections hold, and the checksum is made right (plan_mutator.cpp)
// A plan that is read is bound to a small process, and each stencil is filled and verified again.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/focus/request.h"
#include "runtime/plan/verify.h"
#include "tests/unit/runtime/plan/plan_builder.h"

namespace {

using namespace mdl;
constexpr uint64_t kBlockSize = 1 << 16;  // each cell has room in it

void require(bool holds) {
  if (!holds) std::abort();
}

image::Image small_process() {
  image::Image image;
  image.pid = 1;
  for (const char* name : {"app", "lib.so"}) {
    image::Object object;
    object.name = name;
    object.is_main = image.objects.empty();
    for (const char* function : {"main", "work", "_ZN2ns1fEv", "vfork"}) {
      image::Function& added = object.functions.list().emplace_back();
      added.name = function;
      added.address = 4096 * (image.objects.size() + 1) + object.functions.size() * 16;
    }
    image.objects.own().push_back(std::move(object));
  }
  return image;
}

// An admitted stencil stays admitted when its holes are filled with what a binding gives.
void fill(const plan::Stencil& stencil) {
  std::vector<std::byte> code = stencil.code;
  for (const plan::Hole& hole : stencil.holes) {
    require(hole.offset + hole.size <= code.size());
    const bool shift = hole.kind == plan::HoleKind::symbol_left || hole.kind == plan::HoleKind::symbol_right;
    const int64_t value = plan::is_pc_relative(hole.kind) ? static_cast<int64_t>(code.size())
                          : shift                         ? 63
                                                          : 64;
    std::memcpy(code.data() + hole.offset, &value, hole.size);
  }
  require(static_cast<bool>(plan::verify_filled(*plan::rules_for("x86_64"), stencil, code, kBlockSize)));
}

void use(const std::vector<std::byte>& bytes) {
  const auto plan = plan::read_plan(bytes);
  if (!plan) {
    require(plan.error().status == Status::plan_rejected && !plan.error().text.empty());
    return;
  }
  for (const plan::Stencil& stencil : plan->stencils) fill(stencil);
  fill(plan->guard);
  static const image::Image image = small_process();
  for (const char* focus : {"", "/Code/app/work", "/Code/app", "/Code/*", "/Message/7"}) {
    const auto binding = focus::bind(*plan, image, {{}, {focus}, ""});
    if (!binding) continue;
    for (const focus::BoundPoint& point : binding->points) {
      for (const focus::BoundSnippet& snippet : point.snippets) {
        require(snippet.stencil < plan->stencils.size());
        require(snippet.cells.size() == plan->stencils[snippet.stencil].info.cells.size());
        for (const focus::CellId cell : snippet.cells) require(cell < binding->cells.size());
        for (const focus::CellId guard : snippet.guards) require(guard < binding->cells.size());
      }
    }
  }
}

plan::test::Object good_plan() {
  return plan::test::object_of(plan::test::small_manifest(), plan::test::small_stencils());
}

template <typename Bytes>
void apply(std::span<const uint8_t> edits, Bytes& bytes) {
  for (; edits.size() >= 3; edits = edits.subspan(3)) {
    const size_t at = edits[0] | size_t{edits[1]} << 8;
    bytes[at % bytes.size()] = static_cast<typename Bytes::value_type>(edits[2]);
  }
}

void edit(std::span<const uint8_t> edits) {
  std::vector<std::byte> bytes = write(good_plan());
  apply(edits, bytes);
  plan::test::seal(bytes);
  use(bytes);
}

void edit_manifest(std::span<const uint8_t> edits) {
  plan::test::Object object = good_plan();
  apply(edits, object.manifest);
  use(write(object));
}

void manifest(std::span<const uint8_t> text) {
  plan::test::Object object = good_plan();
  object.manifest.assign(text.begin(), text.end());
  use(write(object));
}

void stencil(std::span<const uint8_t> code) {
  plan::Stencil stencil = plan::test::stencil("s", "");
  stencil.info.clobbers = {"rax", "rcx", "rdx"};
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] != 0xf8 || i + 1 == code.size() ||
        code[i + 1] > static_cast<uint8_t>(plan::HoleKind::thread)) {
      stencil.code.push_back(std::byte{code[i]});
      continue;
    }
    plan::Hole hole;
    hole.offset = static_cast<uint32_t>(stencil.code.size());
    hole.kind = static_cast<plan::HoleKind>(code[++i]);
    hole.addend = plan::is_pc_relative(hole.kind) ? -4 : 0;
    stencil.holes.push_back(hole);
    stencil.code.resize(stencil.code.size() + hole.size);
  }
  if (plan::verify(*plan::rules_for("x86_64"), stencil)) fill(stencil);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  const uint8_t mode = size > 0 ? data[0] : 0;
  if (mode == 'e') {
    edit(input.subspan(1));
  } else if (mode == 'j') {
    edit_manifest(input.subspan(1));
  } else if (mode == 'm') {
    manifest(input.subspan(1));
  } else if (mode == 's') {
    stencil(input.subspan(1));
  } else {
    const auto bytes = std::as_bytes(input);
    use({bytes.begin(), bytes.end()});
  }
  return 0;
}
