// --container: which processes are in which container, by the control groups that /proc shows. All runtimes give each
// container one, and its id or name stands in the group's path.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::inject {

// The ids or names of the containers in the text of /proc/PID/cgroup, each once, an outer one before those in it. Known
// are the groups of Docker, Podman, containerd, CRI-O, Kubernetes (each an id of 64 hexadecimal digits), LXC and
// systemd-nspawn (a name).
std::vector<std::string> containers_in(std::string_view proc_cgroup);

// The names of containers by their ids, as Docker, Podman and containerd have written them below `root`; those files
// are readable for root only. Of a pod's container `NAME` and `POD/NAME`.
std::multimap<std::string, std::string> container_names(const std::filesystem::path& root);

// The groups of one of them, as lines of that text, each up to the folder that makes it the container's.
std::set<std::string> groups_in(std::string_view proc_cgroup, const std::string& container);
// Whether a process with that text is in one of the groups, or below it.
bool is_in_groups(std::string_view proc_cgroup, const std::vector<std::string>& groups);

// The groups of the container with the id, the beginning of one, or the name. Errors: no container has it, with the near
// names; several have.
Result<std::vector<std::string>> groups_of_container(const std::string& name);

}  // namespace mdl::inject
