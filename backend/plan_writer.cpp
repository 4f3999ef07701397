#include "backend/plan_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/mc_emitter.h"

namespace mdl::backend {
namespace {

// What a reader must know to use a stencil.
void add_features(const format::StencilInfo& info, std::set<std::string, std::less<>>& features) {
  features.emplace(format::info(info.point).feature);
  for (const format::CellUse& use : info.cells) features.emplace(format::info(use.kind).feature);
  for (format::Routine routine : info.routines) features.emplace(format::info(routine).feature);
  if (!info.symbols.empty()) features.emplace("symbols");
}

// A stencil as a function: quoted, because an identifier may begin with `$`.
std::string function(const Stencil& stencil, size_t ordinal) {
  const std::string& name = stencil.info.name;
  return fmt::format(
      "\t.globl \"{0}\"\n\t.type \"{0}\", @function\n\"{0}\":\n{1}\t.size \"{0}\", .-\"{0}\"\n", name,
      assembly(stencil, ordinal));
}

}  // namespace

Plan make_plan(const Program& program, const Target& target, std::vector<Refusal>& refusals) {
  Plan plan;
  plan.manifest = program.manifest;
  plan.manifest.target = target.name;
  std::set<std::string, std::less<>> features(plan.manifest.features.begin(), plan.manifest.features.end());
  for (const ir::Snippet& snippet : program.snippets) {
    Result<Stencil> stencil = make_stencil(snippet, target);
    if (!stencil) {
      refusals.push_back({snippet.position, stencil.error().text});
      continue;
    }
    add_features(stencil->info, features);
    plan.manifest.stencils.push_back(stencil->info);
    plan.stencils.push_back(std::move(*stencil));
  }
  plan.manifest.features.assign(features.begin(), features.end());
  return plan;
}

std::string assembly(const Plan& plan, const Target& target) {
  std::string text(target.head);
  text += function(make_guard(target), plan.stencils.size());
  for (size_t i = 0; i < plan.stencils.size(); i++) text += function(plan.stencils[i], i);
  return text;
}

Result<std::vector<std::byte>> write_plan(const Plan& plan, const Target& target, std::string_view cpu) {
  std::string manifest = format::write_manifest(plan.manifest);
  // What no reader would accept is not written: the error is found here, not at the process.
  if (auto read = format::read_manifest(manifest); !read)
    return Error{fmt::format("internal error: {}", read.error().text)};
  auto object =
      assemble(target.triple, cpu, assembly(plan, target),
               {{format::kManifestSection, manifest}, {format::kChecksumSection, std::string(32, '\0')}});
  if (!object) return object;
  std::span<std::byte> checksum = section_bytes(*object, format::kChecksumSection);
  if (checksum.size() != 32) return Error{"internal error: the object has no checksum section"};
  auto digest = sha256(*object);  // over zeros in its own place
  std::copy(digest.begin(), digest.end(), checksum.begin());
  return object;
}

}  // namespace mdl::backend
