/** Node's own SQLite: whether this Node has the one that is needed. */

/** The reason why SQLite cannot run in this program, and what to do. */
export interface Unsupported {
  readonly detail: string
  readonly next: string
}

/** `DatabaseSync` has `timeout` and `isTransaction` from 22.16 and from 24.0 on. */
const hasSqlite = (version: string): boolean => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major >= 24 || (major === 22 && minor >= 16)
}

/** Returns why this Node has no SQLite for this package, or `undefined`. */
export const unsupported = (): Unsupported | undefined => {
  const { node } = process.versions
  return hasSqlite(node)
    ? undefined
    : {
        detail: `SQLite needs Node 22.16 or newer, and this is Node ${node}`,
        next: "Use Node 22.16, or Node 24 or newer (Node 23 has no such SQLite)."
      }
}
