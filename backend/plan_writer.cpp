#include "backend/plan_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "backend/mc_emitter.h"
#include "base/digest.h"

namespace mdl::backend {
namespace {

bool has_kind(const format::Expr& expr, format::ExprKind kind) {
  return expr.kind == kind ||
         std::any_of(expr.operands.begin(), expr.operands.end(),
                     [&](const format::Expr& operand) { return has_kind(operand, kind); });
}

// Adds the features that a reader must know to use a stencil.
void add_features(const format::StencilInfo& info, std::set<std::string, std::less<>>& features) {
  features.emplace(format::info(info.point).feature);
  for (const format::CellUse& use : info.cells) features.emplace(format::info(use.kind).feature);
  for (format::Routine routine : info.routines) features.emplace(format::info(routine).feature);
  if (!info.symbols.empty()) features.emplace("symbols");
  for (const format::Expr& constant : info.constants) {
    if (has_kind(constant, format::ExprKind::parameter)) features.emplace("named-arguments");
    if (has_kind(constant, format::ExprKind::value_type)) features.emplace("value-types");
  }
}

// A stencil as a function: quoted, because an identifier may begin with `$`.
std::string function(const StencilText& stencil, size_t ordinal) {
  const std::string& name = stencil.info.name;
  return fmt::format(
      "\t.globl \"{0}\"\n\t.type \"{0}\", @function\n\"{0}\":\n{1}\t.size \"{0}\", .-\"{0}\"\n", name,
      assembly(stencil, ordinal));
}

// A public key, and zeros for its signature.
std::string unsigned_section(const format::SigningKey& key) {
  std::string out(format::kSignatureSectionBytes, '\0');
  std::memcpy(out.data(), key.public_key().bytes.data(), key.public_key().bytes.size());
  return out;
}

}  // namespace

PlanText make_plan(const Program& program, const Target& target, std::vector<RefusedSnippet>& refusals,
                   bool peepholes) {
  PlanText plan;
  plan.manifest = program.manifest;
  plan.manifest.target = target.name;
  std::set<std::string, std::less<>> features(plan.manifest.features.begin(), plan.manifest.features.end());
  for (const format::Metric& metric : program.manifest.metrics) {
    for (const format::Cell& cell : metric.cells)
      if (cell.kind == format::CellKind::flag) features.emplace("metric-flags");
    if (!metric.focus.empty()) features.emplace("focus");
    if (!metric.keys.empty()) features.emplace("metric-keys");
    if (metric.keyed != format::CellKind::counter) features.emplace("keyed-observations");
    if (metric.keys.size() > 1) features.emplace("several-keys");
    if (format::text_keys(metric)) features.emplace("text-keys");
    if (format::text_keys(metric) > 1) features.emplace("several-text-keys");
    const auto has_key = [&](format::KeyName name) {
      return std::ranges::find(metric.keys, name, &format::MetricKey::name) != metric.keys.end();
    };
    if (has_key(format::KeyName::path)) features.emplace("function-keys");
    if (has_key(format::KeyName::module)) features.emplace("object-keys");
    if (has_key(format::KeyName::memory)) features.emplace("memory-keys");
    if (has_key(format::KeyName::site)) features.emplace("site-keys");
    if (std::ranges::any_of(metric.keys, format::is_lock, &format::MetricKey::name))
      features.emplace("lock-keys");
    if (std::ranges::any_of(metric.keys, format::is_descriptor, &format::MetricKey::name))
      features.emplace("descriptor-keys");
  }
  for (const ir::Snippet& snippet : program.snippets) {
    Result<StencilText> stencil = make_stencil(snippet, target, peepholes);
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

std::string assembly(const PlanText& plan, const Target& target) {
  std::string text(target.head);
  text += function(make_guard(target), plan.stencils.size());
  for (size_t i = 0; i < plan.stencils.size(); i++) text += function(plan.stencils[i], i);
  return text;
}

Result<std::vector<std::byte>> write_plan(const PlanText& plan, const Target& target, std::string_view cpu,
                                          const format::SigningKey* key) {
  std::string manifest = format::write_manifest(plan.manifest);
  // A manifest that no reader would accept is not written: the error is found here, not at the process.
  if (auto read = format::read_manifest(manifest); !read)
    return Error{fmt::format("internal error: {}", read.error().text)};
  std::vector<DataSection> sections = {{format::kManifestSection, manifest}};
  if (key) sections.push_back({format::kSignatureSection, unsigned_section(*key)});
  sections.push_back({format::kChecksumSection, std::string(sizeof(Digest), '\0')});
  auto object = assemble(target.triple, cpu, assembly(plan, target), sections);
  if (!object) return object;
  if (key) {
    std::span<std::byte> section = section_bytes(*object, format::kSignatureSection);
    if (section.size() != format::kSignatureSectionBytes)
      return Error{"internal error: the object has no signature section"};
    const auto signature = key->sign(*object);  // over zeros in its own place, and in the checksum's
    std::memcpy(section.data() + key->public_key().bytes.size(), signature.data(), signature.size());
  }
  std::span<std::byte> checksum = section_bytes(*object, format::kChecksumSection);
  if (checksum.size() != sizeof(Digest)) return Error{"internal error: the object has no checksum section"};
  const Digest digest = sha256(*object);  // over zeros in its own place
  std::copy(digest.begin(), digest.end(), checksum.begin());
  return object;
}

}  // namespace mdl::backend
