#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <vector>

#include "sandbox/confine.h"

#if defined(__x86_64__)
#define SANDBOX_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the seccomp filter supports x86-64 and aarch64"
#endif

namespace sandbox {
namespace {

constexpr int kMemfdSecret = 447;  // on every architecture; missing in older headers

/// System calls that tested programs do not need and exploits start with. They fail with EPERM.
constexpr int kForbidden[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_quotactl,
    SYS_acct,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_syslog,
    SYS_personality,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_setpriority,  // these could target the supervising process
    SYS_ioprio_set,
    SYS_vhangup,
    SYS_lookup_dcookie,
    SYS_shmget,  // from here on: memory that no limit counts
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_memfd_create,
    kMemfdSecret,
};

/// System calls on a process that are only allowed on the caller itself (0).
constexpr int kOnlyOnSelf[] = {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam,
                               SYS_sched_setscheduler};

constexpr unsigned kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWUSER;

sock_filter load(size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }
sock_filter return_action(unsigned what) { return BPF_STMT(BPF_RET | BPF_K, what); }
sock_filter refuse(unsigned error) { return return_action(SECCOMP_RET_ERRNO | error); }
/// Continues with the next instruction if the loaded value passes the test, else skips `skipped` instructions.
sock_filter only_if(unsigned test, unsigned value, unsigned char skipped) {
  return BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, skipped);
}

}  // namespace

void install_seccomp_filter() {
  constexpr size_t kArgument = offsetof(seccomp_data, args);  // the low half on these architectures
  std::vector<sock_filter> program = {load(offsetof(seccomp_data, arch)),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SANDBOX_ARCHITECTURE, 1, 0),
                                      return_action(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
  const auto add = [&](std::initializer_list<sock_filter> code) { program.insert(program.end(), code); };
#if defined(__x86_64__)
  add({only_if(BPF_JGE, 0x40000000, 1), refuse(ENOSYS)});  // the x32 ABI has other numbers for the same calls
#endif
  for (const int call : kForbidden) add({only_if(BPF_JEQ, static_cast<unsigned>(call), 1), refuse(EPERM)});
  // The flags of clone3 are in memory, which a filter cannot read. libc falls back to clone.
  add({only_if(BPF_JEQ, SYS_clone3, 1), refuse(ENOSYS)});
  add({only_if(BPF_JEQ, SYS_clone, 4), load(kArgument), only_if(BPF_JSET, kNewNamespaces, 1), refuse(EPERM),
       return_action(SECCOMP_RET_ALLOW)});
  const auto only_with = [&](int call, unsigned first_argument) {
    add({only_if(BPF_JEQ, static_cast<unsigned>(call), 4), load(kArgument),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first_argument, 1, 0), refuse(EPERM), return_action(SECCOMP_RET_ALLOW)});
  };
  only_with(SYS_socket, AF_UNIX);
  for (const int call : kOnlyOnSelf) only_with(call, 0);
  // No limit counts socket buffers, so they stay at the default size, 208 KiB.
  add({only_if(BPF_JEQ, SYS_setsockopt, 4), load(kArgument + 2 * sizeof(__u64)), only_if(BPF_JEQ, SO_SNDBUF, 1),
       refuse(EPERM), return_action(SECCOMP_RET_ALLOW)});
  add({return_action(SECCOMP_RET_ALLOW)});
  const sock_fprog whole = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0) != 0) stop("seccomp");
}

}  // namespace sandbox
