/** A problem found by doctor, with advice. */
export interface Problem {
  /** An error makes the exit code 1. */
  readonly level: "error" | "warning"
  /** The user's file that the problem is about, or null. */
  readonly file: string | null
  /** The problem and its fix, in sentences. Never contains the value of a variable. */
  readonly message: string
}

export const error = (file: string | null, message: string): Problem => ({ level: "error", file, message })

export const warning = (message: string): Problem => ({ level: "warning", file: null, message })
