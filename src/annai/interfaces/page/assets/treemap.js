// Where does each rectangle of a map of sizes go? Rows that stay as square as they can (squarified treemaps).

/** Rectangles for sizes, the largest first, that fill a width and a height. */
export function rectangles(sizes, width, height) {
  const total = sizes.reduce((sum, each) => sum + each, 0);
  const areas = sizes.map((each) => (each / total) * width * height);
  const placed = [];
  let left = 0, top = 0;
  while (placed.length < areas.length) {
    const [w, h] = [width - left, height - top];
    const side = Math.min(w, h);
    const row = [];
    for (const area of areas.slice(placed.length)) {
      if (row.length && worst([...row, area], side) > worst(row, side)) break;
      row.push(area);
    }
    const thickness = row.reduce((sum, each) => sum + each, 0) / side;
    let along = 0;
    for (const area of row) {
      const length = area / thickness;
      placed.push(w <= h ? { x: left + along, y: top, width: length, height: thickness } : { x: left, y: top + along, width: thickness, height: length });
      along += length;
    }
    if (w <= h) top += thickness;
    else left += thickness;
  }
  return placed;
}

/** How far the worst rectangle of a row is from a square. */
function worst(row, side) {
  const sum = row.reduce((total, each) => total + each, 0);
  return Math.max(...row.map((each) => Math.max((side * side * each) / (sum * sum), (sum * sum) / (side * side * each))));
}
