/**
 * Something that doctor found wrong, with what to do about it.
 */
export interface Problem {
  /** An error makes the exit code 1. */
  readonly level: "error" | "warning"
  /** The file of the user that it is about; null where it is about none. */
  readonly file: string | null
  /** What is wrong and what to do, in sentences. No value of a variable stands in it. */
  readonly message: string
}

export const error = (file: string | null, message: string): Problem => ({ level: "error", file, message })

export const warning = (message: string): Problem => ({ level: "warning", file: null, message })
