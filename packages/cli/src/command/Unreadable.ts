/** Explains why a file or the standard input cannot be read. */
import { Predicate } from "effect"
import type { PlatformError } from "effect"
import { UsageError } from "./UsageError.ts"

const reasons: Readonly<Record<string, string>> = {
  EISDIR: "it is a directory",
  ENOENT: "the file does not exist",
  ENOTDIR: "a part of the path is not a directory",
  EACCES: "permission is denied",
  EPERM: "permission is denied"
}

/** Converts a platform error to a usage error. `what` starts the sentence. */
export const unreadable = (what: string, error: PlatformError.PlatformError): UsageError => {
  const { cause } = error.reason
  const code = Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""
  return new UsageError({ message: `${what} cannot be read: ${reasons[code] ?? error.message}` })
}
