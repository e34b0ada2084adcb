/**
 * Creates empty files that only their owner can read (mode 0600).
 *
 * A POSIX lock ends as soon as its process closes any handle of the file. This module therefore never opens a file
 * that a database of this process may have open. A new file is created under another name and then linked into
 * place.
 */
import { randomUUID } from "node:crypto"
import { closeSync, linkSync, openSync, statSync, unlinkSync } from "node:fs"

/** True when the file was created, false when it existed. Throws the error of the system. */
export const create = (path: string): boolean => {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return false
  const draft = `${path}.${randomUUID()}.new`
  closeSync(openSync(draft, "wx", 0o600))
  try {
    linkSync(draft, path)
    return true
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false
    // The file system has no hard links.
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"].includes(codeOf(error))) throw error
    return createInPlace(path)
  } finally {
    unlinkSync(draft)
  }
}

const createInPlace = (path: string): boolean => {
  try {
    closeSync(openSync(path, "wx", 0o600))
    return true
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false
    throw error
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""
