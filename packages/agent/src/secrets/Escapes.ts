/**
 * Undoes the escapes of JSON strings, however often they were escaped themselves.
 */

// What follows a run of backslashes is optional, so that each run is read once: time in proportion to the text.
const escapes = /\\+(?:u([0-9a-fA-F]{4})|([nrt])|(["'/]))?/g

/** The plain text. A line break becomes a blank, several backslashes one. */
export const undo = (text: string): string =>
  text.includes("\\")
    ? text.replace(
        escapes,
        (_, code: string | undefined, blank: string | undefined, quote: string | undefined) =>
          code !== undefined
            ? String.fromCharCode(Number.parseInt(code, 16))
            : blank !== undefined
              ? " "
              : (quote ?? "\\")
      )
    : text
