// Where things lie in the data that a session has in its target: one list, for C++ and for the assembler.
//
// Each line is a constant kNAME in namespace mdl, and a symbol kNAME in assembly. All are bytes, but for
// numbers of entries; offsets are from the beginning of what the name's first word says. The meaning of the
// words is in resident/layout.h (header, news, slots, blocks), arch/<target>/hit_time.h (a block's clocks),
// format/kinds.h (cells) and resident/key_table.h (tables of keys).
#ifndef MDL_RUNTIME_ARCH_TARGET_DATA_H
#define MDL_RUNTIME_ARCH_TARGET_DATA_H

// clang-format off
#define MDL_TARGET_DATA(X)                                                                            \
  /* The page in front of all else */                                                                 \
  X(HeaderSize, 4096)                                                                                 \
  X(HeaderOverflow, 8)   /* how often a thread found no slot */                                       \
  X(HeaderExit, 64)      /* two words: how often the process was at its exit (or was about to       */ \
                         /* execute another program), and for which of these its values have been   */ \
                         /* read and it may go on; */                                                \
  X(HeaderWaits, 80)     /* whether somebody reads them: set with the journal, 0 after --detach */    \
  X(HeaderEnded, 128)    /* copies made of ended threads' blocks, */                                   \
  X(HeaderDropped, 136)  /* and those without room */                                                  \
  X(HeaderProcess, 192)  /* the process whose data these are, as it knows itself; */                   \
  X(HeaderSharer, 200)   /* another that shares its memory and may pass; whether a fork's child has */ \
  X(HeaderMissed, 208)   /* gone on without its parent's data having been taken out of these        */ \
  X(HeaderConfined, 216) /* since the insertion: 0, or that the process has put itself under a      */ \
  X(Confined, 1)         /* filter or the like, and how often a hit made no system call for that,    */ \
  X(CallLeftOut, 2)      /* so that what it had to tell is not known                                */ \
  X(HeaderBorrowed, 224) /* since the insertion: whether a thread began with another's pointer       */ \
  /* The news, where forks are followed */                                                            \
  X(NewsSize, 4096)                                                                                   \
  X(NewsMade, 0)         /* entries made */                                                            \
  X(NewsNobody, 8)       /* somebody has waited in vain, nobody else shall */                          \
  X(NewsPrograms, 16)    /* whether executed programs are followed */                                  \
  X(NewsBeat, 24)        /* changes every 0.1 s while the injector lives and somebody waits */         \
  X(NewsAsks, 32)        /* how many threads have asked before they execute a program */               \
  X(NewsMissedForks, 40) /* children that went on without their data having been made their own */     \
  X(NewsMissedPrograms, 48) /* threads that went on to execute a program without being followed */     \
  X(NewsRing, 64)        /* a word for each entry, 0 = taken */                                        \
  X(NewsEntries, 256)                                                                                 \
  X(NewsAsking, 2176)    /* their ids, each until it may go on */                                      \
  X(NewsAskers, 128)                                                                                   \
  /* Waiting for the injector: naps, of so many ns and what the kernel adds; some 0.8 s */             \
  X(Naps, 5000)                                                                                       \
  X(NapNs, 100000)                                                                                    \
  /* In the place of how rt_sigprocmask is to change the mask: it reads it, and changes nothing */      \
  X(NoMaskChange, 0xffffffff)                                                                         \
  /* A slot of the directory: {thread pointer, block}; 0 = free */                                     \
  X(SlotSize, 16)                                                                                     \
  /* A thread's block. Two words have one meaning while the thread lives and another in a copy. */     \
  X(BlockHeader, 128)                                                                                 \
  X(LargestBlock, 16 << 20)                                                                           \
  X(BlockAnomalies, 0)   /* that are not told apart */                                                 \
  X(BlockThread, 8)      /* id of the thread, -1 while the block is made ready for another */          \
  X(BlockCpuClock, 16)                                                                                \
  X(BlockBegan, 24)                                                                                   \
  X(BlockTaken, 32)                                                                                   \
  X(BlockClock, 40)                                                                                   \
  X(BlockDeferred, 48)   /* how many bytes of the list of what waits at tail jumps are in use */       \
  X(BlockArmed, 56)      /* how many bytes of the area of armed calls are in use */                    \
  X(BlockAway, 64)                                                                                    \
  X(BlockStands, 72)     /* while the thread waits in resident code its CPU clock, else 0 */           \
  X(BlockAnew, 80)       /* in a fork's child, the counter when the thread's data began; else 0 */     \
  X(BlockSequence, 16)   /* of a copy: its number, from 1, */                                          \
  X(BlockOrigin, 24)     /* and the block that it is a copy of */                                      \
  /* Of a hit, in ticks (arch/<target>/hit_time.h) */                                                    \
  X(LongestHit, 1 << 19)                                                                              \
  X(LongestRead, 1 << 14)                                                                             \
  X(UsualRead, 600)                                                                                   \
  X(LongestAway, 1 << 28)                                                                             \
  X(LongestBegin, 400)                                                                                \
  X(MostBehind, 48)                                                                                   \
  /* From timer to timer: {value, depth, the outermost frame's stack pointer, unused} */               \
  X(TimerSize, 32)                                                                                    \
  /* What waits at tail jumps: entries {place of the return address, cell} */                          \
  X(DeferredBytes, 2048)                                                                              \
  X(DeferredEntry, 16)                                                                                \
  /* A table of keys, and a total in it: {key, total, thread, key, part, count, key, owner}:           */ \
  /* resident/key_table.h                                                                              */ \
  X(TableKeys, 0)        /* offsets in a block: of the thread's active keys, */                        \
  X(TableKey, 8)         /* of the key that is meant, */                                               \
  X(TableChange, 16)     /* of what happens to it (format::KeyChange), */                              \
  X(TableBase, 24)       /* and of the value whose growth is the keys' */                              \
  X(TableMask, 32)       /* slots less one */                                                          \
  X(TableMost, 40)       /* totals at most */                                                          \
  X(TableUsed, 48)       /* totals so far */                                                           \
  X(TableTotals, 56)     /* offset of the totals; number 0 is for what found no room */                \
  X(TableThreads, 64)    /* not 0: each thread has totals of its own */                                \
  X(TableOthers, 72)     /* how many totals are for what found no room */                              \
  X(TableTexts, 80)      /* not 0: keys are texts; the offset of the texts, by total */    \
  X(TableKey2, 88)       /* as TableKey, of further keys that are meant; 0 = there are none */         \
  X(TableKey3, 96)                                                                                    \
  X(TableOwn, 104)       /* where the totals end, and a table of threads' own begins, unless keys are texts; */  \
  X(TablePlain, 112)     /* the same where keys are one value each and no thread's, else 0 */            \
  X(TableOwned, 120)     /* not 0: this is such a table */                                              \
  X(TableTextKeys, 128)  /* how many of the keys are texts: the first ones */                           \
  X(TableDescriptors, 136) /* a byte for each of these: 0 = code names its address, else a descriptor;  */ \
                         /* then 1 = what is no socket counts, 2 = sockets do, 3 = both                 */ \
  X(TableSites, 144)     /* a bit for each of the keys: code names a block's address, and the key is its site, */ \
  X(TableBlocks, 152)    /* as the blocks say that lie there */                                         \
  X(TableMade, 160)      /* not 0: some of the keys are made here of what code names: texts and sites */ \
  X(TableSlots, 192)     /* 32 bits each: the number of a total, 0 = free */                           \
  X(OwnKeys, 16384)      /* while a table has no more totals, threads get some of their own */          \
  X(TotalSize, 64)                                                                                    \
  X(TotalShift, 6)                                                                                    \
  X(TotalThread, 16)                                                                                  \
  X(TotalKey2, 24)                                                                                    \
  X(TotalKey3, 48)                                                                                    \
  X(TotalPart, 32)                                                                                    \
  X(TotalCount, 40)                                                                                   \
  X(TotalOwner, 56)      /* the block whose thread alone writes it; 0: it is not filled */             \
  X(AnyThreads, 1)       /* in the place of that block */                                              \
  /* A text: a word that is 0 as long as nobody has read it, else its bytes and 1, and flags; its bytes */ \
  X(TextSize, 264)                                                                                    \
  X(TextBytes, 256)      /* at most */                                                                 \
  X(TextCut, 1 << 16)    /* there is more of it, or what is behind it cannot be read */                \
  X(TextBad, 1 << 17)    /* nothing is mapped there */                                                 \
  X(TextClosed, 1 << 18) /* of a descriptor: it is not open, */                                       \
  X(TextNoProc, 1 << 19) /* there is no /proc that knows the process, */                              \
  X(TextUnknown, 1 << 20) /* or the kernel does not say what it is open for */                         \
  /* Blocks: buckets of so many bytes of addresses, and as many of their sites */                       \
  X(BlockBuckets, 1 << 19)                                                                            \
  X(BlockBucket, 64)                                                                                  \
  X(BlockBucketShift, 7)                                                                              \
  X(BlockWindowShift, 7) /* of the heap that one bucket is for, unless another part of it shares that; */ \
  X(BlockPartShift, 26)  /* and of the parts */                                                       \
  /* A thread's active keys: entries, and behind them how often there were more */                     \
  X(ActiveCount, 0)                                                                                   \
  X(ActiveKey, 8)                                                                                     \
  X(ActiveBase, 16)                                                                                   \
  X(ActiveFrame, 24)                                                                                  \
  X(ActiveTotal, 32)                                                                                  \
  X(ActiveSize, 40)                                                                                   \
  X(ActiveEntries, 8)                                                                                 \
  /* The calls that run (resident_entries.inc): how many numbers threads have got, the least of them    */ \
  /* that counts, and behind them the buckets: the keys of their entries, and {clock, counter, number,  */ \
  /* value} for each                                                                                    */ \
  X(RunningLast, 0)                                                                                   \
  X(RunningLeast, 64)                                                                                 \
  X(RunningBuckets, 4096)                                                                             \
  X(RunningBits, 12)     /* of the number of a bucket */                                               \
  X(BucketShift, 9)                                                                                   \
  X(BucketKeys, 96)                                                                                   \
  X(RunningSize, 4096 + (2 << 20))                                                                    \
  /* A histogram (format/kinds.h): its sum, and behind it its buckets */                               \
  X(HistogramCounts, 8)                                                                               \
  X(HistogramShift, 6)                                                                                \
  X(HistogramTop, 48)
// clang-format on

#ifdef __ASSEMBLER__
#define X(name, value) .equ k##name, value;
MDL_TARGET_DATA(X)
#undef X
#else
namespace mdl {
#define X(name, value) inline constexpr unsigned long k##name = value;
MDL_TARGET_DATA(X)
#undef X
}  // namespace mdl
#endif

#endif
