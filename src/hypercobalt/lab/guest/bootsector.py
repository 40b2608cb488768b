"""512-byte guests: one boot sector that does one thing, for drills that need just an event.

They start in a fraction of a second, also under TCG. Each prints `boot PROGRAM: up` on the serial
port, waits, and then does one thing, its name. The programs are
listings: the bytes, then the instruction they are (as `objdump -M intel` shows them).

Sources: the BIOS loads the sector to 0x7c00 in real mode; ACPI's registers at port 0x600, with
power-off at 0x604, and pvpanic at 0x505 are QEMU's machines `pc` and `q35`, the ib700 watchdog at
0x443 and the keyboard controller's reset at 0x64 `pc`; INT 13h function 43h is the EDD extended
write.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Literal

from hypercobalt.lab.errors import LabError

Program = Literal[
    "idle",
    "poweroff",
    "obey",
    "reset",
    "triple-fault",
    "panic",
    "dump",
    "watchdog",
    "write-disk",
    "flood-disk",
    "ledger",
    "dirty-memory",
]

SECTOR_BYTES = 512
_TICKS_PER_SECOND = 18.2065  # the BIOS timer
_MIB = 1024 * 1024
_PAGE = 4096
_LARGEST_WORD = 0xFFFF
_WRITE_TICKS = round(_TICKS_PER_SECOND / 2)
"""Between two writes: of 32 KiB, or of a record by `ledger`."""
_PAGES_A_TICK = round(4 * _MIB / _PAGE / _TICKS_PER_SECOND)
"""What `dirty-memory` dirties, 4 MiB a second, once it has written to all of its memory."""

# Where things lie in the sector; add 0x7c00 for the address.
_HANDLER, _DISK_PACKET, _GDT_POINTER, _IDT_POINTER, _TEXT, _GDT, _SIGNATURE = (
    0x150, 0x160, 0x170, 0x178, 0x180, 0x1C0, 0x1FE,
)  # fmt: skip
_LOADED_AT = 0x7C00


def _code(listing: str) -> bytes:
    """The bytes of a listing: the text before two spaces in each line."""
    lines = (line.strip().split("  ")[0] for line in listing.strip().splitlines())
    return b"".join(bytes.fromhex(line) for line in lines)


_PRINT_AND_WAIT = """
    fa                    cli
    31 c0                 xor ax,ax
    8e d8                 mov ds,ax
    8e d0                 mov ss,ax
    bc 00 7c              mov sp,0x7c00
    be 80 7d              mov si,text
    ba fd 03        next: mov dx,0x3fd
    ec              busy: in al,dx
    a8 20                 test al,0x20
    74 fb                 je busy
    ba f8 03              mov dx,0x3f8
    ac                    lodsb
    84 c0                 test al,al
    74 03                 je done
    ee                    out dx,al
    eb ed                 jmp next
    fb              done: sti
    b9 {ticks}            mov cx,ticks
    f4              tick: hlt
    e2 fd                 loop tick
"""
_IDLE = """
    f4              idle: hlt
    eb fd                 jmp idle
"""
# A mark in the clock's memory, which outlives a reset but not QEMU: the second start idles.
_ONCE = """
    b0 7e                 mov al,0x7e
    e6 70                 out 0x70,al
    e4 71                 in al,0x71
    3c a5                 cmp al,0xa5
    75 03                 jne first
    f4              idle: hlt
    eb fd                 jmp idle
    b0 a5          first: mov al,0xa5
    e6 71                 out 0x71,al
"""
_POWEROFF = """
    ba 04 06              mov dx,0x604
    b8 00 20              mov ax,0x2000
    ef                    out dx,ax
"""
# The power button shows in the first word of ACPI's registers once the second word enables it. Its
# interrupt, which nothing here answers, would come again and again: its controller is masked.
_OBEY = (
    """
    b0 ff                 mov al,0xff
    e6 a1                 out 0xa1,al
    ba 02 06              mov dx,0x602
    b8 00 01              mov ax,0x100
    ef                    out dx,ax
    f4              wait: hlt
    ba 00 06              mov dx,0x600
    ed                    in ax,dx
    f6 c4 01              test ah,1
    74 f6                 jz wait
"""
    + _POWEROFF
)
_RESET = """
    b0 fe                 mov al,0xfe
    e6 64                 out 0x64,al
"""
_TRIPLE_FAULT = """
    0f 01 1e 70 7d        lidt [zeros]
    cc                    int3
"""
_PANIC = """
    ba 05 05              mov dx,0x505
    b0 01                 mov al,1
    ee                    out dx,al
"""
# As a crash kernel does (pvpanic's second bit): writes for ten seconds, then resets the machine.
_DUMP = """
    ba 05 05              mov dx,0x505
    b0 02                 mov al,2
    ee                    out dx,al
    bd 14 00              mov bp,20
    b8 00 43        save: mov ax,0x4300
    c7 06 62 7d 40 00     mov word [packet+2],64
    b2 80                 mov dl,0x80
    be 60 7d              mov si,packet
    cd 13                 int 0x13
    66 83 06 68 7d 40     add dword [packet+8],64
    b9 {ticks}            mov cx,ticks
    f4              tick: hlt
    e2 fd                 loop tick
    4d                    dec bp
    75 e1                 jne save
"""
# 14 stands for two seconds, the shortest but 0.
_WATCHDOG = """
    ba 43 04              mov dx,0x443
    b0 0e                 mov al,14
    ee                    out dx,al
"""
# 32 KiB at a time, each after the last, to 16 MiB and from the start again; repeats what fails.
# The BIOS replaces the count of sectors by that of those that it wrote.
_WRITE_DISK = """
    b8 00 43       write: mov ax,0x4300
    c7 06 62 7d 40 00     mov word [packet+2],64
    b2 80                 mov dl,0x80
    be 60 7d              mov si,packet
    cd 13                 int 0x13
    72 1a                 jc wait
    66 83 06 68 7d 40     add dword [packet+8],64
    66 81 3e 68 7d c0 7f 00 00  cmp dword [packet+8],32704
    72 09                 jb wait
    66 c7 06 68 7d 40 00 00 00  mov dword [packet+8],64
    b9 {ticks}      wait: mov cx,ticks
    f4              tick: hlt
    e2 fd                 loop tick
    eb cc                 jmp write
"""
# The same, but what fails is repeated at once, as fast as the machine is.
_FLOOD_DISK = _WRITE_DISK.replace("72 1a                 jc wait", "72 ee                 jc write")
# Records of 8 sectors, from where the last one ends; see `ledger`. At 0x9004 lie the mark of this
# boot, which is the clock's count at its start, and the number of its next record.
_LEDGER = """
    31 c0                 xor ax,ax
    8e c0                 mov es,ax
    fc                    cld
    0f 31                 rdtsc
    66 a3 04 90           mov [0x9004],eax
    66 89 16 08 90        mov [0x9008],edx
    66 c7 06 0c 90 01 00 00 00  mov dword [0x900c],1
    b4 42           find: mov ah,0x42
    e8 69 00              call disk
    72 13                 jb write
    66 81 3e 00 80 4c 44 52 47  cmp dword [0x8000],"LDRG"
    75 08                 jne write
    66 83 06 68 7d 08     add dword [packet+8],8
    eb e6                 jmp find
    bf 00 80       write: mov di,0x8000
    66 b8 4c 44 52 47     mov eax,"LDRG"
    66 ab                 stosd
    66 a1 68 7d           mov eax,[packet+8]
    66 ab                 stosd
    66 a1 04 90           mov eax,[0x9004]
    66 ab                 stosd
    66 a1 08 90           mov eax,[0x9008]
    66 ab                 stosd
    66 a1 0c 90           mov eax,[0x900c]
    b9 fb 03              mov cx,1019
    66 f3 ab              rep stosd
    be 00 80              mov si,0x8000
    66 31 d2              xor edx,edx
    b9 ff 03              mov cx,1023
    66 ad            sum: lodsd
    66 01 c2              add edx,eax
    e2 f9                 loop sum
    66 89 15              mov [di],edx
    b4 43                 mov ah,0x43
    e8 15 00              call disk
    72 0b                 jb pause
    66 83 06 68 7d 08     add dword [packet+8],8
    66 ff 06 0c 90        inc dword [0x900c]
    b9 {ticks}     pause: mov cx,ticks
    f4              tick: hlt
    e2 fd                 loop tick
    eb ac                 jmp write
    b0 00           disk: mov al,0
    b2 80                 mov dl,0x80
    be 60 7d              mov si,packet
    cd 13                 int 0x13
    c3                    ret
"""
# Protected mode, where all memory is in reach, with the timer as the only interrupt.
_DIRTY_MEMORY = """
    fa                    cli
    b0 fe                 mov al,0xfe
    e6 21                 out 0x21,al
    b0 ff                 mov al,0xff
    e6 a1                 out 0xa1,al
    e4 92                 in al,0x92
    0c 02                 or al,2
    e6 92                 out 0x92,al
    66 c7 06 40 06 50 7d 08 00  mov dword [0x640],0x87d50
    66 c7 06 44 06 00 8e 00 00  mov dword [0x644],0x8e00
    0f 01 16 70 7d        lgdt [gdt_pointer]
    0f 01 1e 78 7d        lidt [idt_pointer]
    0f 20 c0              mov eax,cr0
    0c 01                 or al,1
    0f 22 c0              mov cr0,eax
    ea 5f 7c 08 00        jmp 8:protected
    66 b8 10 00  protected: mov ax,0x10
    8e d8                 mov ds,ax
    8e d0                 mov ss,ax
    bc 00 7c 00 00        mov esp,0x7c00
    fb                    sti
    bf 00 00 10 00        mov edi,0x100000
    b9 {all_pages}        mov ecx,all_pages
    eb 05                 jmp page
    b9 {pages}      tick: mov ecx,pages
    ff 07           page: inc dword [edi]
    81 c7 00 10 00 00     add edi,0x1000
    81 ff {end}           cmp edi,end
    72 05                 jb more
    bf 00 00 10 00        mov edi,0x100000
    49              more: dec ecx
    75 e8                 jne page
    f4                    hlt
    eb e0                 jmp tick
"""
_TIMER_HANDLER = """
    50                    push eax
    b0 20                 mov al,0x20
    e6 20                 out 0x20,al
    58                    pop eax
    cf                    iret
"""
_LISTINGS: dict[Program, str] = {
    "idle": "",
    "poweroff": _POWEROFF,
    "obey": _OBEY,
    "reset": _ONCE + _RESET,
    "triple-fault": _ONCE + _TRIPLE_FAULT,
    "panic": _ONCE + _PANIC,
    "dump": _ONCE + _DUMP + _RESET,
    "watchdog": _WATCHDOG,
    "write-disk": _WRITE_DISK,
    "flood-disk": _FLOOD_DISK,
    "ledger": _LEDGER,
    "dirty-memory": _DIRTY_MEMORY,
}
# Sectors, from where in memory (offset, segment), and the first sector on the disk.
_WRITE_PACKET = struct.pack("<BBHHHQ", 16, 0, 64, 0, 0x1000, 64)
_LEDGER_PACKET = struct.pack("<BBHHHQ", 16, 0, 8, 0x8000, 0, 64)
# Flat code and data segments after the empty one.
_SEGMENTS = struct.pack("<QQQ", 0, 0x00CF9A000000FFFF, 0x00CF92000000FFFF)


def image(
    program: Program,
    *,
    delay: timedelta = timedelta(seconds=1),
    memory_mib: int = 16,
) -> bytes:
    """The boot sector of a program, 512 bytes.

    Args:
        program: what it does after `delay`.
        delay: from its line on the console to the deed.
        memory_mib: memory of the VM, for `dirty-memory`, which rewrites all but the ends of it.

    Raises:
        LabError: a value that 16 or 32 bits or the program cannot hold.
    """
    ticks = max(1, round(delay.total_seconds() * _TICKS_PER_SECOND))
    if ticks > _LARGEST_WORD:
        raise LabError(f"boot sector: delay makes {delay}; an hour is the most")
    end = (memory_mib - 1) * _MIB
    if program == "dirty-memory" and not 2 * _MIB <= end < 1 << 31:
        raise LabError(f"boot sector: memory_mib={memory_mib} is not from 3 to 2048")
    listing = _LISTINGS[program].format(
        ticks=_little("<H", _WRITE_TICKS),
        pages=_little("<I", _PAGES_A_TICK),
        all_pages=_little("<I", max(0, end - _MIB) // _PAGE),
        end=_little("<I", end),
    )
    code = _code(_PRINT_AND_WAIT.format(ticks=_little("<H", ticks)) + listing + _IDLE)
    sector = bytearray(SECTOR_BYTES)
    for offset, part in (
        (0, code),
        (_HANDLER, _code(_TIMER_HANDLER)),
        (_DISK_PACKET, _LEDGER_PACKET if program == "ledger" else _WRITE_PACKET),
        (_TEXT, f"boot {program}: up\r\n\0".encode()),
        (_GDT, _SEGMENTS),
        (_SIGNATURE, b"\x55\xaa"),
    ):
        sector[offset : offset + len(part)] = part
    if program == "dirty-memory":
        sector[_GDT_POINTER : _GDT_POINTER + 6] = struct.pack(
            "<HI", len(_SEGMENTS) - 1, _LOADED_AT + _GDT
        )
        sector[_IDT_POINTER : _IDT_POINTER + 6] = struct.pack("<HI", 0x47, 0x600)
    return bytes(sector)


def _little(layout: str, number: int) -> str:
    return struct.pack(layout, number).hex(" ")
