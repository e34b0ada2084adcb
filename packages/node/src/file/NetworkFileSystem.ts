/**
 * Detects file systems on which SQLite's locks do not work.
 *
 * SQLite locks files by `fcntl`, and in WAL mode shares memory between its processes. Both need one kernel. On a
 * network file system two machines can believe that they hold the same lock, which destroys a database.
 *
 * **Limits.** Linux only: the type comes from `statfs`. Other systems, and types not listed here, count as local.
 */
import { statfsSync } from "node:fs"

/** `refuse`: locks are known not to work. `warn`: locks depend on the mount. */
type Verdict = "refuse" | "warn"

export interface NetworkFileSystem {
  /** The file system, for example `NFS`. */
  readonly name: string
  readonly verdict: Verdict
}

/** Known file systems by the magic number of `statfs` (linux/magic.h, and the sources of out-of-kernel systems). */
const known: ReadonlyMap<number, NetworkFileSystem> = new Map([
  [0x6969, { name: "NFS", verdict: "refuse" }],
  [0x517b, { name: "SMB", verdict: "refuse" }],
  [0xff534d42, { name: "CIFS", verdict: "refuse" }],
  [0xfe534d42, { name: "SMB2", verdict: "refuse" }],
  [0x5346414f, { name: "AFS", verdict: "refuse" }],
  [0x73757245, { name: "Coda", verdict: "refuse" }],
  [0x00c36400, { name: "Ceph", verdict: "refuse" }],
  [0x0bd00bd0, { name: "Lustre", verdict: "refuse" }],
  [0x47504653, { name: "GPFS", verdict: "refuse" }],
  [0x7461636f, { name: "OCFS2", verdict: "refuse" }],
  [0x01161970, { name: "GFS2", verdict: "refuse" }],
  // Shared folders of virtual machines and containers; FUSE also carries sshfs and s3fs.
  [0x65735546, { name: "FUSE", verdict: "warn" }],
  [0x01021997, { name: "9P", verdict: "warn" }],
  [0x786f4256, { name: "a VirtualBox folder", verdict: "warn" }]
])

/** The network file system with this magic number, if it is one. */
export const ofType = (type: number): NetworkFileSystem | undefined => known.get(type >>> 0)

/** The network file system that holds `folder`. Throws the error of `statfs`. */
export const of = (folder: string): NetworkFileSystem | undefined =>
  process.platform === "linux" ? ofType(statfsSync(folder).type) : undefined
