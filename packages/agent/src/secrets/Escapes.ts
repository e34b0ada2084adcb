/**
 * Undoes the escapes of JSON strings, at any level of repeated escaping.
 */

// The part after a run of backslashes is optional. Each run is therefore read once, in linear time.
const escapes = /\\+(?:u([0-9a-fA-F]{4})|([nrt])|(["'/]))?/g

/** Returns the plain text. A line break becomes a blank, several backslashes become one. */
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
