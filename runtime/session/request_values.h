// The values of each request in a sample, and the series that they are of: one, or one for each thread, or,
// for a request such as /Message/*, one for each key that was seen and one for what found no room.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/image/address_names.h"
#include "runtime/output/series.h"
#include "runtime/resident/journal.h"
#include "runtime/session/socket_names.h"
#include "runtime/values/keys.h"
#include "runtime/values/sampler.h"

namespace mdl::inject {

struct RequestValue {
  bool others = false;  // keys that found no room
  values::KeyOf of;     // the key of a keyed request, the thread of one that has a value for each
  int64_t total = 0;
  const values::Observations* observed =
      nullptr;  // the snapshot's, of a distribution, a minimum and their like
  format::CellKind kind = format::CellKind::counter;
};

// Where the keys of a request lie in its process.
values::KeyPlace key_place(const resident::JournalTable& table);

class RequestValues {
 public:
  // All outlive it; `pid` is the journal's process, or the child that has a copy of the journal.
  RequestValues(const resident::Journal& journal, const values::BlockLayout& layout, output::Feed& feed,
                pid_t pid);

  // The journal has other requests now. `kept`: by request, which one of those before it is; `feeds`: whose it is.
  void change(const values::BlockLayout& layout, const std::vector<std::optional<uint32_t>>& kept,
              std::vector<output::Feed*> feeds);
  // That gets the request's points.
  output::Feed& feed_of(size_t request) const { return feeds_.empty() ? feed_ : *feeds_[request]; }

  // What lies at addresses, for keys that are shown so; numbers without it.
  void name_addresses(std::shared_ptr<const image::AddressNames> names) { addresses_ = std::move(names); }
  const std::shared_ptr<const image::AddressNames>& addresses() const { return addresses_; }

  // Reads the keys as they are now. Keys that cannot be read keep their last values.
  void read_keys(const image::Memory& memory);
  // The values of a request, in an order that stays; keys as they were read last.
  std::vector<RequestValue> of(size_t request, const values::Snapshot& snapshot) const;
  // `place`: where in these.
  const output::Series& series(size_t request, const RequestValue& value, size_t place);
  // How often a thread had more active keys than it can keep.
  uint64_t more_keys() const;
  // Whether keys of this request have found no room in its table.
  bool has_other_keys(size_t request) const;
  // Whether there have been more lines by thread than are kept: further threads are in those of thread 0.
  bool has_more_threads() const { return has_more_threads_; }

 private:
  // Of tables that have none.
  void add_readers(const values::BlockLayout& layout);
  const output::Series& series_of(size_t request, const RequestValue& value);
  const std::vector<format::KeyName>* names_of_keys(size_t request) const;
  bool has_line(size_t request, uint64_t thread) const;
  std::string text_of(size_t request, format::KeyName name, int64_t key) const;
  std::string_view asked(size_t request, format::KeyName name) const;
  // Whether the request's focus asks for it, of a metric by key.
  bool is_asked(size_t request, const values::KeyOf& of) const;
  // The text of the one that stands in that place, which no other key there has.
  std::string name_key(size_t request, size_t place, format::KeyName name, int64_t key);
  void name_descriptors(size_t request, const values::KeyValues& now);

  const resident::Journal& journal_;
  output::Feed& feed_;
  std::vector<output::Feed*> feeds_;  // by request; empty: all have that one
  pid_t pid_;
  std::shared_ptr<SocketNames> sockets_;      // the readers of keys have it, too
  std::map<size_t, values::KeyReader> keys_;  // of keyed requests
  std::shared_ptr<const image::AddressNames> addresses_;
  std::map<std::pair<size_t, int64_t>, std::string>
      files_;  // of descriptors that are keys of a request, as first seen
  std::map<std::tuple<size_t, size_t, std::string>, int64_t> taken_;  // texts of keys, by their places
  using Of = std::tuple<size_t, bool, values::KeyOf>;
  struct Known {
    Of of;
    const output::Series* series = nullptr;
  };
  std::map<Of, const output::Series*> series_;
  size_t lines_by_thread_ = 0;  // that there have been: the feed keeps them
  mutable bool has_more_threads_ = false;
  // By request and place, as they were last: thousands are not looked up for each sample.
  std::vector<std::vector<Known>> last_;
};

}  // namespace mdl::inject
