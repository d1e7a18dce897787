"""The fence of the Apprise process: what its plugins must not do is taken from it by the kernel (seccomp, Landlock).

Unlike an audit hook of Python it also holds native code. The process for Apprise loads this file by itself, without the
rest of pollerd; the daemon asks it only whether the kernel can do all of it. A call that is refused fails with EPERM (a
file with EACCES), so that a plugin reports an error instead of dying.

System calls are listed by what is allowed: what a later kernel adds is refused until it is listed here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

from pollerd.texts import _

_X86_64, _AARCH64 = "x86_64", "aarch64"
_AUDIT_ARCHITECTURES = {_X86_64: 0xC000003E, _AARCH64: 0xC00000B7}
_NUMBERS = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, close 3 57, close_range 436 436, lseek 8 62,
dup 32 23, dup2 33 -, dup3 292 24, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20,
epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd2 290 19, pipe 22 -, pipe2 293 59,
stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439,
readlink 89 -, readlinkat 267 78, getdents64 217 61, getcwd 79 17, statfs 137 43, fstatfs 138 44, fadvise64 221 223,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, mincore 27 232, brk 12 214,
recvfrom 45 207, recvmsg 47 212, sendto 44 206, shutdown 48 210, getsockname 51 204, getpeername 52 205,
getsockopt 55 209, setsockopt 54 208, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
rt_sigpending 127 136, rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128, pause 34 -, alarm 37 -,
setitimer 38 103, getitimer 36 102, futex 202 98, futex_waitv 449 449, set_robust_list 273 99, get_robust_list 274 100,
rseq 334 293, set_tid_address 218 96, membarrier 324 283, sched_yield 24 124, sched_getaffinity 204 123,
sched_getparam 143 121, sched_getscheduler 145 120, sched_get_priority_max 146 125, sched_get_priority_min 147 126,
getcpu 309 168, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, nanosleep 35 101,
gettimeofday 96 169, time 201 -, times 100 153, getrusage 98 165, sysinfo 99 179, uname 63 160, getrandom 318 278,
getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177,
getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156, getresuid 118 148, getresgid 120 150, umask 95 166,
open 2 -, openat 257 56, fcntl 72 25, ioctl 16 29, prctl 157 167, prlimit64 302 261, tgkill 234 131, clone 56 220,
exit 60 93, exit_group 231 94
"""
"""System calls that are allowed: name, number on x86_64, number on aarch64 (-: it has none)."""
_CLONE3, _OPENAT2, _FIRST_UNKNOWN = 435, 437, 470
"""The same on both machines, as are all later ones. ENOSYS makes the C library use an older call instead."""
_SECCOMP = {_X86_64: 317, _AARCH64: 277}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_LOAD, _AND, _EQUAL, _NOT_LESS, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""Instructions of BPF, on words of 32 bits."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_ALL_BITS = 0xFFFF_FFFF
_CLONE_THREAD = 0x0001_0000
_CLONE_NAMESPACES = 0x7E02_0080
_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_FCNTL = (0, 1, 2, 3, 4, 1030)
"""Copies of a descriptor and its flags. Not F_SETOWN, which sends signals to other processes."""
_IOCTL = (0x5421, 0x541B, 0x5450, 0x5451, 0x5401)
"""FIONBIO, FIONREAD, FIONCLEX, FIOCLEX, and TCGETS, which asks for a terminal."""
_PRCTL = (15, 16)
"""The thread's name."""
_ADVICE = 31
"""MADV_ values up to this one concern only the process itself."""

_NO_NEW_PRIVILEGES = 38
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _TSYNC = 1, 2, 1
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FIRST_NETWORK_ABI, _FIRST_SCOPE_ABI = 4, 6
_HANDLED_FILES = ((1, 0x1FFF), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
"""ABI of Landlock -> the accesses to files that it added."""


class _Check(NamedTuple):
    """One word of an argument of a system call, and what it may be."""

    offset: int
    """In the kernel's `seccomp_data`."""
    mask: int
    values: tuple[int, ...]


def missing() -> str | None:
    """Returns what this kernel refuses of the fence, as a clause for a sentence; None: all of it is there."""
    if not _has_seccomp():
        return _("this system has no seccomp for processes: system calls are not filtered")
    if _landlock_abi() < 1:
        return _("this kernel has no Landlock: all files that pollerd can read are readable by native code")
    return None


def put_up(folders: Iterable[str], files: Iterable[str]) -> None:
    """Takes from this process all but reading these folders and files, its open descriptors, and its own threads.

    It must run one thread yet. Of what `missing` names the rest is put up. Raises OSError where the kernel refuses what
    it had said that it can do, and RuntimeError where other threads run.
    """
    if not _has_seccomp():
        return
    if os.path.isdir("/proc/self/task") and len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("other threads run already")
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))))
    if _landlock_abi() >= 1:
        _restrict_files(folders, files)
    program = seccomp_program(os.uname().machine, os.getpid())
    code = ctypes.create_string_buffer(program)
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    _checked(_system_call(_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _TSYNC, ctypes.addressof(described)))


def seccomp_program(machine: str, process_id: int) -> bytes:
    """Returns the filter of system calls: instructions of 8 bytes for the kernel's BPF.

    machine: `x86_64` or `aarch64`. process_id: the process that may signal itself, as `abort` does.
    """
    checks, numbers = _checks(process_id), _numbers(machine)
    lines = [
        _line(_LOAD, 4),
        _line(_EQUAL, _AUDIT_ARCHITECTURES[machine], 1, 0),
        _line(_RETURN, _FAIL | errno.EPERM),
        _line(_LOAD, 0),
    ]
    for name, number in numbers.items():
        block = [line for check in checks.get(name, ()) for line in _check_lines(check)] + [_line(_RETURN, _ALLOW)]
        lines += [_line(_EQUAL, number, 0, len(block)), *block]
    for operation, number in ((_EQUAL, _CLONE3), (_EQUAL, _OPENAT2), (_NOT_LESS, _FIRST_UNKNOWN)):
        lines += [_line(operation, number, 0, 1), _line(_RETURN, _FAIL | errno.ENOSYS)]
    return b"".join([*lines, _line(_RETURN, _FAIL | errno.EPERM)])


def _checks(process_id: int) -> dict[str, tuple[_Check, ...]]:
    """Returns what is asked of the arguments of those calls that are allowed only sometimes."""
    return {
        "clone": (_Check(_low(0), _CLONE_THREAD | _CLONE_NAMESPACES, (_CLONE_THREAD,)),),
        "tgkill": (_Check(_low(0), _ALL_BITS, (process_id,)),),
        "open": (_Check(_low(1), _WRITING, (os.O_RDONLY,)),),
        "openat": (_Check(_low(2), _WRITING, (os.O_RDONLY,)),),
        "sendto": _null(4),  # an address would connect a socket
        "prlimit64": (_Check(_low(0), _ALL_BITS, (0,)), *_null(2)),
        "fcntl": (_Check(_low(1), _ALL_BITS, _FCNTL),),
        "ioctl": (_Check(_low(1), _ALL_BITS, _IOCTL),),
        "prctl": (_Check(_low(0), _ALL_BITS, _PRCTL),),
        "madvise": (_Check(_low(2), _ALL_BITS & ~_ADVICE, (0,)),),
    }


def _numbers(machine: str) -> dict[str, int]:
    column = 1 if machine == _X86_64 else 2
    rows = [entry.split() for entry in _NUMBERS.split(",")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def _low(argument: int) -> int:
    return 16 + 8 * argument


def _null(argument: int) -> tuple[_Check, ...]:
    return tuple(_Check(_low(argument) + half, _ALL_BITS, (0,)) for half in (0, 4))


def _check_lines(check: _Check) -> list[bytes]:
    count = len(check.values)
    return [
        _line(_LOAD, check.offset),
        _line(_AND, check.mask),
        *(_line(_EQUAL, value, count - place, 0) for place, value in enumerate(check.values)),
        _line(_RETURN, _FAIL | errno.EPERM),
    ]


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _restrict_files(folders: Iterable[str], files: Iterable[str]) -> None:
    """Lets this thread, and those it starts, read these and nothing else, and reach nothing over the network."""
    abi = _landlock_abi()
    handled = sum(bits for since, bits in _HANDLED_FILES if abi >= since)
    network, scopes = 3 if abi >= _FIRST_NETWORK_ABI else 0, 3 if abi >= _FIRST_SCOPE_ABI else 0
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", handled, network, scopes), 24)
    rules = _checked(_system_call(_LANDLOCK_CREATE, ctypes.addressof(attributes), 24, 0))
    for allowed, paths in ((_READ_FILE | _READ_DIR, folders), (_READ_FILE, files)):
        for path in paths:
            _allow(rules, path, allowed)
    _checked(_system_call(_LANDLOCK_RESTRICT, rules, 0))
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:  # a folder of libraries that this installation does not have
        return
    rule = ctypes.create_string_buffer(struct.pack("<Qi", access, place))
    _checked(_system_call(_LANDLOCK_ADD, rules, _PATH_BENEATH, ctypes.addressof(rule), 0))
    os.close(place)


def _has_seccomp() -> bool:
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in _SECCOMP or struct.calcsize("P") != 8:
        return False
    action = ctypes.c_uint32(_FAIL)
    return _system_call(_SECCOMP[machine], _GET_ACTION_AVAIL, 0, ctypes.addressof(action)) == 0


def _landlock_abi() -> int:
    """Returns the version of Landlock; below 1: the kernel has none, or refuses it."""
    return _system_call(_LANDLOCK_CREATE, 0, 0, _VERSION)


def _system_call(number: int, *arguments: int) -> int:
    """Calls the kernel; returns -1 with an errno of `ctypes` for a refusal."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, _("the kernel refuses the fence: {strerror}", strerror=os.strerror(number)))
    return result
