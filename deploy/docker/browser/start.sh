#!/bin/sh
# Starts the forwarder and Chromium; when either ends the container does, and is started anew.
set -eu
mkdir -p /tmp/home
export HOME=/tmp/home TMPDIR=/tmp
socat TCP-LISTEN:9222,fork,reuseaddr TCP:127.0.0.1:9223 &
# --no-sandbox: the container is the sandbox (no capabilities, read-only, no network but pollerd's proxy); Docker allows no
# namespaces within one. The proxy named here is nobody's: each page gets pollerd's with credentials of its own.
exec chromium --headless --no-sandbox --remote-debugging-port=9223 --user-data-dir=/tmp/home/profile \
  --proxy-server=http://127.0.0.1:9 '--proxy-bypass-list=<-loopback>' \
  --force-webrtc-ip-handling-policy=disable_non_proxied_udp --disable-quic --dns-prefetch-disable --no-pings \
  --disable-background-networking --disable-component-update --disable-sync --disable-extensions --disable-breakpad \
  --disable-domain-reliability --disable-client-side-phishing-detection --disable-gpu --disable-dev-shm-usage \
  --disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,PreconnectToSearch,Prerender2,MediaRouter \
  --js-flags=--max-old-space-size=512 --no-first-run --no-default-browser-check --mute-audio --hide-scrollbars \
  --no-startup-window
