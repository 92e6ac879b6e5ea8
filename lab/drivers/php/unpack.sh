# Unpack Debian's packages here, and keep what says which version each of them is.
set -e
mkdir -p control
for package in *.deb; do
  dpkg-deb --extract "$package" .
  dpkg-deb --field "$package" Version > "control/${package%%_*}"
  rm "$package"
done
