#!/bin/busybox sh
# The guest's only program: brings up what the kernel command line names, beats once a second on the
# serial console, and does what a line on the console asks for. Every line it prints starts with
# "guest NAME: "; every command ends in one line "ok COMMAND ..." or "error COMMAND: why".
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
dmesg -n 1 # the kernel speaks up only when it dies, not into our lines
# Without checksums by the device: a switch in user space reads frames before these are filled in, and
# OVN drops what has a wrong one.
for module in $(cat /modules/order); do
  case $module in virtio_net.ko) options=csum=0 ;; *) options= ;; esac
  insmod "/modules/$module" $options
done

name=guest address= dhcp= beat=on channel=
for word in $(cat /proc/cmdline); do
  case $word in
    guest.name=*) name=${word#*=} ;;
    guest.address=*) address=${word#*=} ;;
    guest.dhcp) dhcp=on ;;
  esac
done
hostname "$name"
stty -echo <&0

say() { echo "guest $name: $*"; }
ok() { say "ok $verb${*:+ $*}"; }
error() { say "error $verb: $*"; }
number() { case $1 in '' | *[!0-9]*) error "'$1' is not a number"; return 1 ;; esac; }
disk() { [ -b /dev/vda ] || { error "there is no disk"; return 1; }; }
end() { [ -n "$1" ] && kill -9 "$1" 2>/dev/null; }

# The power button sends a 24-byte input event.
for device in /sys/class/input/event*; do
  if [ "$(cat "$device/device/name" 2>/dev/null)" = "Power Button" ]; then
    (dd if="/dev/input/${device##*/}" bs=24 count=1 >/dev/null 2>&1 && say "power button" && poweroff -f) &
    button=$!
  fi
done

ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
  [ -n "$address" ] && ip address add "$address" dev eth0
  ip link set eth0 up
fi

# As a guest of Nova's: address and routes by DHCP, then its own UUID from the metadata service.
cat >/bin/lease <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
set -- $staticroutes
while [ $# -ge 2 ]; do ip route add "$1" via "$2" dev "$interface"; shift 2; done
echo "$ip" >/address
END
chmod +x /bin/lease
uuid() { # not by wget: it ends with a segmentation fault, as it is linked statically
  printf 'GET /openstack/latest/meta_data.json HTTP/1.0\r\n\r\n' |
    nc -w 5 169.254.169.254 80 2>/dev/null |
    sed -n 's/.*"uuid": *"\([0-9a-f-]*\)".*/\1/p'
}
if [ "$dhcp" = on ]; then
  (udhcpc -q -i eth0 -s /bin/lease -O staticroutes -T 1 -A 1 >/dev/null 2>&1
    say "lease $(cat /address)"
    until id=$(uuid) && [ -n "$id" ]; do sleep 1; done
    say "instance $id") &
fi

# Rewrites the same part of memory, so many MiB a second; tmpfs pages count like any other.
dirty() {
  part=$(awk '/^MemAvailable/ { print int($2 / 3072) }' /proc/meminfo)
  [ "$1" -lt "$part" ] && part=$1
  yes 0123456789abcde | dd of=/pattern bs=1M count="$part" iflag=fullblock 2>/dev/null
  while :; do
    left=$1
    sleep 1 &
    while [ "$left" -gt 0 ]; do
      dd if=/pattern of=/dirty bs=1M count="$left" conv=notrunc 2>/dev/null
      left=$((left - part))
    done
    wait $!
  done
}

# What libvirt asks of a guest agent: to be in step, then to answer.
agent() {
  exec <>"$1" >&0
  while read -r line || sleep 1; do # nobody listens on the host: end of file at once
    case $line in
      *guest-sync*) id=${line##*\"id\":} && echo "{\"return\": ${id%%[!0-9]*}}" ;;
      *guest-ping*) echo '{"return": {}}' ;;
      ?*) echo '{"error": {"class": "CommandNotFound", "desc": "not in this guest"}}' ;;
    esac
  done
}
for port in /sys/class/virtio-ports/*; do
  [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] && channel=/dev/${port##*/}
done

orders="help, echo TEXT, beat on|off, dirty MIB_PER_SECOND, ping ADDRESS [COUNT [SECONDS]], \
metadata, write-disk MIB, read-disk MIB, pet SECONDS, starve, agent on|off, deaf, hang, panic, reboot, poweroff"
obey() {
  verb=$1 argument=$2
  case $verb in
    help) ok "$orders" ;;
    echo) shift; ok "$@" ;;
    beat) beat=$argument; ok "$beat" ;;
    dirty) # dirty MIB_PER_SECOND; 0 ends it
      number "$argument" || return
      end "$dirtier"; dirtier=
      rm -f /pattern /dirty
      [ "$argument" = 0 ] || { dirty "$argument" & dirtier=$!; }
      ok "$argument" ;;
    ping) # ping ADDRESS COUNT SECONDS_BETWEEN; the result comes later, as "pinged ADDRESS ..."
      [ -n "$argument" ] || { error "which address?"; return; }
      (say "pinged $argument $(ping -q -c "${3:-1}" -i "${4:-1}" -W 1 "$argument" 2>&1 | grep -E 'transmitted|^ping:')") &
      shift; ok "$@" ;;
    metadata) # its UUID, as the metadata service has it
      tries=20
      until id=$(uuid) && [ -n "$id" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { error "no answer"; return; }
        sleep 1
      done
      ok "$id" ;;
    write-disk) # write-disk MIB: random bytes, and their sum
      number "$argument" && disk || return
      if dd if=/dev/urandom of=/dev/vda bs=1M count="$argument" conv=fsync 2>/tmp.log; then
        ok "$argument $(dd if=/dev/vda bs=1M count="$argument" 2>/dev/null | md5sum | cut -c 1-32)"
      else error "$(head -n 1 /tmp.log)"; fi ;;
    read-disk) # read-disk MIB: the sum of what the disk holds
      number "$argument" && disk || return
      echo 3 >/proc/sys/vm/drop_caches
      if dd if=/dev/vda bs=1M count="$argument" 2>/tmp.log >/sum.in; then
        ok "$argument $(md5sum </sum.in | cut -c 1-32)"
      else error "$(head -n 1 /tmp.log)"; fi
      rm -f /sum.in ;;
    pet) # pet SECONDS: the watchdog fires that long after the last sign of life
      number "$argument" || return
      if [ -e /dev/watchdog ]; then
        end "$petter"
        watchdog -F -T "$argument" -t 1 /dev/watchdog & petter=$!
        # It is armed once it is open: `starve` must not end who pets it before that.
        until [ "$(readlink "/proc/$petter/fd/3")" = /dev/watchdog ]; do
          kill -0 "$petter" 2>/dev/null || { error "it cannot be opened"; return; }
          sleep 0.1
        done
        ok "$argument"
      else error "there is no watchdog device"; fi ;;
    starve) end "$petter"; petter=; ok ;;
    agent) # agent on|off: off closes the channel
      end "$agent"; agent=
      if [ "$argument" = on ]; then
        [ -n "$channel" ] || { error "there is no channel"; return; }
        agent "$channel" & agent=$!
      fi
      ok "$argument" ;;
    deaf) end "$button"; ok ;;
    hang) # like a locked-up machine: no beat, network, button, agent, nobody pets the watchdog
      ok
      [ -n "$agent" ] && kill -STOP "$agent" # its channel stays open
      end "$petter"; end "$button"; end "$dirtier"
      ip link set eth0 down 2>/dev/null
      while :; do :; done ;;
    panic) ok; echo c >/proc/sysrq-trigger ;;
    reboot) ok; reboot -f ;;
    poweroff) ok; poweroff -f ;;
    *) error "unknown; known are: $orders" ;;
  esac
}

set -f # what comes over the console names no files
say "up ${address:-without an address}"
beats=0
while :; do
  if read -r -t 1 line; then
    [ -n "$line" ] && obey $line
  else
    beats=$((beats + 1))
    [ "$beat" = on ] && say "alive $beats"
  fi
done
