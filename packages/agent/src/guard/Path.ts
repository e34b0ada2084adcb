/** One name for a file, however it is written: `./src//a.ts` and `src\lib\..\a.ts` are `src/a.ts`. Pure text. */
export const normalised = (path: string): string => {
  const parts: Array<string> = []
  for (const part of path.trim().replaceAll("\\", "/").split("/")) {
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop()
    else if (part !== "" && part !== ".") parts.push(part)
  }
  return `${/^[\\/]/.test(path.trim()) ? "/" : ""}${parts.join("/")}`
}
