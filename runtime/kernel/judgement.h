// What the broker allows: which processes it may touch for the worker, and what it may show of them. Each call's check is
// made of these (broker.cpp); rights.h says what a process may have. All of it is the broker's, but trust().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string_view>

#include "runtime/kernel/broker.h"

namespace mdl::kernel {

void trust(Trust trust);  // once, before there is a broker
void begin_judging(pid_t worker);
void end_judging();  // writes of which processes the audit has no end
std::chrono::milliseconds patience();

// Between these, rights that were compared are not compared again: in one question, and for one call as the owner.
void begin_question();
void end_call();

bool may_touch(pid_t tid);
bool may_seize(pid_t tid);
bool may_look(pid_t tid);
bool may_set(pid_t tid);     // what it stands with
bool may_change(pid_t tid);  // that, and the process
void goes_on(pid_t tid);     // and may get other rights
pid_t head_of(pid_t tid);    // the process that was named, of a thread of it or of its family; 0 for others
void adopt(pid_t started);   // the program that was started

void note_writer(uint32_t writer, pid_t tid);  // was opened, to that thread's process
bool may_write(uint32_t writer);

bool is_owner(pid_t tid);
bool may_show(pid_t tid, std::string_view name);
bool may_show_own(std::string_view name);
bool is_setting(std::string_view path);
bool is_worker(pid_t tid);
bool is_lock(std::string_view name);
bool is_allowed_command(std::string_view words, std::string_view folder);

}  // namespace mdl::kernel
